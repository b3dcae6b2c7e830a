"""Two machines inside of this one: network namespaces with host names and addresses of their own, and a link between them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.shared import slow_link

HOSTS = {"first": "10.91.0.1", "second": "10.91.0.2"}
LINK = slow_link.NAME  # the name of the interface on both
_PREPARE = """
echo {host} > /proc/sys/kernel/hostname
mount --bind {folder}/hosts /etc/hosts
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
echo ready
read end
"""  # ends with this process, which holds the other end of its pipe


class NoHosts(OSError):
    """Namespaces cannot be made here."""


class TwoHosts:
    """Two hosts, each with some ranks.

    Parameters
    ----------
    folder : Path
        An empty folder that both see.
    holders : list of subprocess.Popen
        The processes that hold their namespaces.
    """

    def __init__(self, folder: Path, holders: list[subprocess.Popen[str]]) -> None:
        self.folder, self.holders = folder, dict(zip(HOSTS, holders, strict=True))
        self.agent = folder / "agent"  # what mpiexec calls in the place of ssh
        pids = "".join(f"{host}) pid={holder.pid} ;;\n" for host, holder in self.holders.items())
        enter = " ".join(_enter("$pid", "$PWD"))
        self.agent.write_text(f'#!/bin/sh\ncase $1 in\n{pids}esac\nshift\nexec {enter} -- sh -c "$*"\n')
        self.agent.chmod(0o755)

    def inside(self, host: str, *command: object) -> list[str]:
        """Return a command, to be run on a host."""
        return [*_enter(str(self.holders[host].pid), os.getcwd()), "--", *map(str, command)]

    def start(
        self, how: str | os.PathLike[str], variables: dict[str, str], *script: object, each: int = 2
    ) -> list[subprocess.Popen[str]]:
        """Start a Python script on ranks of both hosts.

        Parameters
        ----------
        how : str or Path
            The ``mpiexec`` to call; or "torchrun", or "by hand": one process after the other, for torch.distributed.
        variables : dict
            The environment.
        *script : object
            The script and its arguments.
        each : int
            Ranks of each host.

        Returns
        -------
        list of subprocess.Popen
            What was started.
        """
        run, ranks = [sys.executable, *script], len(HOSTS) * each
        variables = variables | {"MASTER_ADDR": "first", "MASTER_PORT": "29500"}
        if how == "torchrun":
            options = ["--nnodes", 2, "--nproc-per-node", each, "--rdzv-backend", "c10d", "--rdzv-endpoint", "first:29400"]
            run[1:1] = ["-m", "torch.distributed.run", *options]
            return [self._process(host, run, variables) for host in HOSTS]
        if how == "by hand":
            own = [variables | {"RANK": str(rank), "WORLD_SIZE": str(ranks)} for rank in range(ranks)]
            return [self._process(host, run, rank) for host, rank in zip(sorted(each * list(HOSTS)), own, strict=True)]
        hosts = ",".join(f"{host}:{each}" for host in HOSTS)
        launch = ["--with-ft", "ulfm", "--prtemca", "plm_ssh_agent", self.agent, "--host", hosts, "-n", ranks]
        return [self._process("first", [how, *launch, *run], variables)]

    def _process(self, host: str, command: list[object], variables: dict[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.inside(host, *command), env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def cut(self) -> None:
        """Break the link, without a word to either side."""
        subprocess.run(self.inside("second", "ip", "link", "set", LINK, "down"), check=True)


def sent_here() -> int:
    """Return the bytes that this host has sent over the link."""
    (line,) = [line for line in Path("/proc/self/net/dev").read_text().splitlines() if line.strip().startswith(LINK)]
    return int(line.split()[9])


def _enter(pid: str, folder: str) -> list[str]:
    return ["nsenter", "--target", pid, "--net", "--uts", "--mount", f"--wd={folder}"]


@contextmanager
def two_hosts(folder: Path, delay: float = 0.0, bandwidth: float = 0.0, loss: float = 0.0) -> Iterator[TwoHosts]:
    """Make two hosts, and a link between them.

    Parameters
    ----------
    folder : Path
        An empty folder.
    delay, bandwidth, loss : float
        Of the link: seconds one way, bytes a second (0: no limit), probability that a packet is lost.

    Yields
    ------
    TwoHosts
        The hosts.

    Raises
    ------
    NoHosts
        If they cannot be made here.
    """
    (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{address} {host}\n" for host, address in HOSTS.items()))
    started = []
    try:
        for host in HOSTS:
            shell = ["sh", "-ec", _PREPARE.format(host=host, folder=folder)]
            started.append(_ready("namespaces of networks", ["unshare", "--net", "--uts", "--mount", *shell]))
        hosts = TwoHosts(folder, started[:])
        places = [str(place) for host in HOSTS for place in (hosts.holders[host].pid, HOSTS[host])]
        if delay or bandwidth or loss:
            link = [delay, bandwidth or float("inf"), loss, *places]
            started.append(_ready("slow links", [sys.executable, slow_link.__file__, *map(str, link)]))
        else:
            ends = ["ip", "link", "add", LINK, "netns", places[0], "type", "veth", "peer", "name", LINK, "netns", places[2]]
            made = subprocess.run(ends, capture_output=True, text=True, check=False)
            if made.returncode:
                raise NoHosts(f"no link between namespaces here: {made.stderr.strip()}")
            for host, address in HOSTS.items():
                subprocess.run(hosts.inside(host, "ip", "addr", "add", f"{address}/24", "dev", LINK), check=True)
                subprocess.run(hosts.inside(host, "ip", "link", "set", LINK, "up"), check=True)
        yield hosts
    finally:
        for process in started[2:]:
            process.kill()
        for process in started:
            process.communicate()


def _ready(what: str, command: list[str]) -> subprocess.Popen[str]:
    """Start a process, and wait until it says that it is ready."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process: subprocess.Popen[str] = subprocess.Popen(command, text=True, **pipes)
    assert process.stdout is not None
    if (said := process.stdout.readline()) != "ready\n":
        process.kill()
        raise NoHosts(f"no {what} here: {said.strip()}{process.communicate()[0].strip()}")
    return process
