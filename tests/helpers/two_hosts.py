"""Two machines inside of this one: network namespaces with host names and addresses of their own, and a link between them."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from engine_harness import KIND, MPIEXEC, environment

HOSTS = {"first": "10.91.0.1", "second": "10.91.0.2"}
LINK = "link0"  # the name of the interface on both
_PREPARE = """
echo {host} > /proc/sys/kernel/hostname
mount --bind {folder}/hosts /etc/hosts
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
echo ready
read end
"""  # ends with this process, which holds the other end of its pipe


class TwoHosts:
    """Two hosts, each with two ranks; ``holders`` are the processes that hold their namespaces."""

    def __init__(self, folder, holders):
        self.folder, self.holders = folder, dict(zip(HOSTS, holders, strict=True))
        self.agent = folder / "agent"  # what mpiexec calls in the place of ssh
        pids = "".join(f"{host}) pid={holder.pid} ;;\n" for host, holder in self.holders.items())
        enter = " ".join(_enter("$pid", "$PWD"))
        self.agent.write_text(f'#!/bin/sh\ncase $1 in\n{pids}esac\nshift\nexec {enter} -- sh -c "$*"\n')
        self.agent.chmod(0o755)

    def inside(self, host, *command):
        """A command, to be run on a host."""
        return [*_enter(self.holders[host].pid, os.getcwd()), "--", *map(str, command)]

    def start(self, how, script, *arguments):
        """Start a script on two ranks of each host, by mpiexec, by torchrun, or one by one; the processes that were started."""
        variables = {KIND: "mpi" if how == "mpiexec" else "torch", "MASTER_ADDR": "first", "MASTER_PORT": "29500"}
        run = [sys.executable, script, *arguments]
        if how == "mpiexec":
            launch = ["--with-ft", "ulfm", "--prtemca", "plm_ssh_agent", self.agent, "--host", "first:2,second:2", "-n", "4"]
            return [self._process("first", [MPIEXEC, *launch, *run], variables)]
        if how == "torchrun":
            options = ["--nnodes", 2, "--nproc-per-node", 2, "--rdzv-backend", "c10d", "--rdzv-endpoint", "first:29400"]
            run[1:1] = ["-m", "torch.distributed.run", *options]
            return [self._process(host, run, variables) for host in HOSTS]
        ranks = [variables | {"RANK": str(rank), "WORLD_SIZE": "4"} for rank in range(4)]
        return [self._process(host, run, rank) for host, rank in zip(sorted(2 * list(HOSTS)), ranks, strict=True)]

    def _process(self, host, command, variables):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(self.inside(host, *command), env=environment(**variables), **pipes)

    def cut(self):
        """Break the link, without a word to either side."""
        subprocess.run(self.inside("second", "ip", "link", "set", LINK, "down"), check=True)


def sent_here():
    """The bytes that this host has sent over the link."""
    (line,) = [line for line in Path("/proc/self/net/dev").read_text().splitlines() if line.strip().startswith(LINK)]
    return int(line.split()[9])


def _enter(pid, folder):
    return ["nsenter", "--target", str(pid), "--net", "--uts", "--mount", f"--wd={folder}"]


@contextmanager
def two_hosts(folder):
    """Two hosts with a link between them; the test is skipped where they cannot be made."""
    (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{address} {host}\n" for host, address in HOSTS.items()))
    holders, pipes = [], {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    try:
        for host in HOSTS:
            shell = ["sh", "-ec", _PREPARE.format(host=host, folder=folder)]
            holders.append(subprocess.Popen(["unshare", "--net", "--uts", "--mount", *shell], **pipes))
            said = holders[-1].stdout.readline()
            if said != "ready\n":
                pytest.skip(f"no namespaces of networks here: {said.strip()}")
        one, two = (str(holder.pid) for holder in holders)
        hosts = TwoHosts(folder, holders)
        ends = ["ip", "link", "add", LINK, "netns", one, "type", "veth", "peer", "name", LINK, "netns", two]
        made = subprocess.run(ends, capture_output=True, text=True, check=False)
        if made.returncode:
            pytest.skip(f"no link between namespaces here: {made.stderr.strip()}")
        for host, address in HOSTS.items():
            subprocess.run(hosts.inside(host, "ip", "addr", "add", f"{address}/24", "dev", LINK), check=True)
            subprocess.run(hosts.inside(host, "ip", "link", "set", LINK, "up"), check=True)
        yield hosts
    finally:
        for holder in holders:
            holder.communicate()
