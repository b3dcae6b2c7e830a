"""The store at which ranks of ``torch.distributed`` meet: it listens where it is told to, and says so."""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from consensus import _checks
from consensus.frameworks.torch_start import Start

if TYPE_CHECKING:
    from torch.distributed import Store

_INTERFACE = "GLOO_SOCKET_IFNAME"  # the environment's variable
_ELSEWHERE = "192.0.2.1"  # of no machine (RFC 5737); nothing is sent there
_ANSWERS = 1.0  # seconds


class Place:
    """Meeting place of the ranks of a ``start``: ``host`` and ``port``, None if it is a file."""

    def __init__(self, start: Start) -> None:
        self.start = start
        url = urlparse(start.init_method)
        self.host: str | None = url.hostname if url.scheme == "tcp" else None
        self.port = url.port if url.scheme == "tcp" else None
        if url.scheme == "env":
            self.host, self.port = os.environ.get("MASTER_ADDR"), int(os.environ.get("MASTER_PORT") or 0)
        self.plain = not url.query
        self.torchrun = url.scheme == "env" and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"

    @property
    def alone(self) -> bool:
        """True if all ranks are known to be on this machine."""
        if self.torchrun:
            return os.environ.get("LOCAL_WORLD_SIZE") == str(self.start.world_size)
        return self.host is not None and (self.host == "localhost" or _is_loopback(self.host))

    def store(self, timeout: timedelta) -> Store:
        """Return the store; the first rank's listens at the address that is given alone, unless it is torchrun's."""
        from torch.distributed import TCPStore
        from torch.distributed.rendezvous import rendezvous

        url, rank, size = self.start
        if self.host is None or not self.port or rank or self.torchrun or not self.plain:
            store: Store = next(rendezvous(url, rank, size, timeout=timeout))[0]
            return store
        listening = self._listening(self.host, self.port)
        settings = {"timeout": timeout, "multi_tenant": True, "master_listen_fd": listening.detach()}
        return TCPStore(self.host, self.port, size, True, **settings)

    def _listening(self, host: str, port: int) -> socket.socket:
        """Return a socket bound to the address of the host; to all if that is another machine's, or a name for itself alone."""
        found = sorted(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), key=lambda one: one[0] != socket.AF_INET)
        family, _, _, _, address = found[0]
        # Some systems resolve a machine's own name to a loopback address, at which others cannot find it.
        everywhere = not self.alone and _is_loopback(str(address[0])) and os.environ.get("SLURM_STEP_NUM_NODES") != "1"
        for name in ("", address[0]) if everywhere else (address[0], ""):
            bound = socket.socket(family, socket.SOCK_STREAM)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                bound.bind((name, port))
                return bound
            except OSError as error:
                bound.close()
                if error.errno != errno.EADDRNOTAVAIL:
                    raise
        raise OSError(errno.EADDRNOTAVAIL, f"{host} has no address of this machine")

    @contextmanager
    def interface(self) -> Iterator[None]:
        """Have gloo listen on the loopback interface inside, if all ranks are here and the user does not say otherwise."""
        names = {name for _, name in socket.if_nameindex()} & {"lo", "lo0"} if hasattr(socket, "if_nameindex") else set()
        if not (self.alone and names) or _INTERFACE in os.environ:
            yield
            return
        os.environ[_INTERFACE] = names.pop()
        try:
            yield
        finally:
            del os.environ[_INTERFACE]

    def say(self) -> None:
        """Tell the log what listens where, and warn if others than those who are meant to can reach the first rank's store."""
        if self.start.rank or self.host is None or not self.port:
            return
        known = {str(one[4][0]) for one in socket.getaddrinfo(self.host, self.port)}
        beyond = sorted(one for one in _addresses() - known if _answers(one, self.port))
        what = "torchrun's store" if self.torchrun else "the store of rank 0"
        where = ", ".join(sorted(known | set(beyond)))
        logging.getLogger("consensus").info("%s, where the ranks meet, listens on port %d of %s", what, self.port, where)
        if not beyond:
            return
        if self.torchrun:
            remedy = (
                "torchrun cannot narrow that: close the port to strangers, or start the ranks without it, on one machine each "
                f"by MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 WORLD_SIZE={self.start.world_size} RANK=... python script.py"
            )
        else:
            remedy = (
                f"give the one that the other ranks reach, such as MASTER_ADDR={beyond[0]} or tcp://{beyond[0]}:{self.port}"
            )
        _checks.warn(
            f"{what} listens on port {self.port} of {where}: whoever reaches it may join as a rank"
            + (", and run code, as torchrun unpickles what is there" if self.torchrun else "")
            + f"; {remedy}"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _addresses() -> set[str]:
    """Return addresses of this machine but loopback ones: that of its name, and that from which it reaches others."""
    found = set()
    with suppress(OSError):  # it has no name
        found |= {str(one[4][0]) for one in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # it reaches no others
        probe.connect((_ELSEWHERE, 9))
        found.add(probe.getsockname()[0])
    return {one for one in found if not _is_loopback(one)}


def _answers(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), _ANSWERS).close()
        return True
    except OSError:
        return False
