"""Faults of a run of peers that are found before it begins, and who can mend each."""

from __future__ import annotations

import os
import platform
import queue
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import grpc

import consensus
from consensus import _checks
from consensus.errors import WorkerError
from consensus.peers.audit import Audit
from consensus.peers.certificates import days_left
from consensus.peers.link import packed, unpacked
from consensus.peers.messages_pb2 import Frame, Hello
from consensus.peers.ranks import Here
from consensus.peers.roster import Peer, Roster
from consensus.peers.service import METHOD, Service, channel, listens

_SKEW = 60.0  # seconds by which clocks may differ
_ROOM = 1 << 30  # bytes that should be free
_AGAIN = 0.5  # seconds between two looks for a neighbour
_LOOK = 5.0  # seconds for one of them


class Finding(NamedTuple):
    """A line of :func:`check`.

    Attributes
    ----------
    right : bool
        Whether all is well.
    text : str
        What was looked at, and if it is wrong, who can mend it, and how.

    Examples
    --------
    >>> from consensus.peers import Finding
    >>> print(Finding(True, "disk: 73 GB are free"))
    ok    disk: 73 GB are free
    """

    right: bool
    text: str

    def __str__(self) -> str:
        return f"{'ok   ' if self.right else 'WRONG'} {self.text}"


def check(path: str | os.PathLike[str], me: str, seconds: float = 10.0) -> Iterator[Finding]:
    """Look for what is wrong with a run of peers before it begins: yield a line for each thing, and who can mend it.

    This peer listens meanwhile, and answers neighbours that check, too: so all see each other if they do it at the same time.

    Parameters
    ----------
    path : path
        The file of the run.
    me : str
        Name of this peer.
    seconds : float
        How long to look for neighbours.

    Yields
    ------
    Finding
        Of the file, certificates, disk, address, and each neighbour.

    Examples
    --------
    >>> from consensus.peers import check
    >>> for finding in check("missing.toml", "oslo"):
    ...     print(finding)
    WRONG path must be the file of a run; cannot read missing.toml: No such file or directory
    """
    _checks.number("seconds", seconds, above=0)
    try:
        roster = Roster.read(path, me)
    except ValueError as error:
        yield Finding(False, str(error))
        return
    folder, peers = roster.path.parent, len(roster.peers)
    yield Finding(
        True, f"{roster.path.name}: {peers} peers, {len(roster.edges)} edges, connected, digest {roster.digest.hex()[:8]}"
    )
    for peer in roster.peers:
        yield _certificate(peer)
    yield _disk(folder)
    with tempfile.TemporaryDirectory() as unused:
        audit = Audit(Path(unused, "audit"))
        here = Here(roster, audit)
        here.links = {}
        service = Service(roster, here)
        try:
            service.listen()
            yield Finding(
                True, f"{me} listens at {listens(roster.peers[roster.me])}" if service.listens else f"{me} only calls"
            )
        except WorkerError as error:
            yield Finding(False, str(error))
        end = time.monotonic() + seconds
        for other in roster.neighbours:
            if roster.dials(other):
                yield _neighbour(roster, other, end)
            else:
                name = roster.peers[other].name
                yield Finding(
                    True, f"{name} calls {me}: consensus-opt peer {roster.path.name} --me {name} --check there says more"
                )
        time.sleep(max(0.0, end - time.monotonic()) if service.listens else 0.0)
        service.stop()
        audit.close()


def _certificate(peer: Peer) -> Finding:
    left, said = days_left(peer.certificate), peer.fingerprint.hex()[:16]
    if left <= 0:
        remedy = f"{peer.name} sees to the date of its clock, or makes another one by consensus-opt keys {peer.name}"
        return Finding(False, f"certificate of {peer.name} is not valid today: {remedy}, for all")
    return Finding(True, f"certificate of {peer.name}: {said}..., valid for {left:.0f} days")


def _disk(folder: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(False, f"{folder.resolve()} cannot be written to ({error.strerror}): you make it writable")
    if free < _ROOM:
        return Finding(
            False, f"disk: {free / 1e6:.0f} MB are free in {folder.resolve()}, for checkpoints and the audit: you make room"
        )
    return Finding(True, f"disk: {free / 1e9:.0f} GB are free in {folder.resolve()}")


def _neighbour(roster: Roster, other: int, end: float) -> Finding:
    peer, file = roster.peers[other], roster.path.name
    host, _, port = str(peer.address).rpartition(":")
    while True:
        begin = time.time()
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_LOOK):
                pass
            hello = _asked(roster, other)
            break
        except OSError as error:
            why = (
                f"{peer.address} does not answer ({error}): {peer.name} starts its process, or its own --check, opens the port "
            )
            why += "in its firewall, or corrects the address"
        except grpc.RpcError as error:
            said = str(error.details())[:200]
            why = (
                f"{peer.address} answers, and TLS fails ({said}): you and {peer.name} compare the SHA-256 of your certificates"
            )
        if time.monotonic() > end:
            return Finding(False, f"{peer.name}: {why}")
        time.sleep(_AGAIN)
    skew = hello.time - (begin + time.time()) / 2
    if hello.version != consensus.__version__:
        return Finding(
            False, f"{peer.name} has version {hello.version[:20]} of the package, you {consensus.__version__}: take one"
        )
    if hello.run != roster.digest:
        return Finding(
            False, f"{peer.name} has another {file}, or other certificates (digest {hello.run.hex()[:8]}): compare them"
        )
    if abs(skew) > _SKEW:
        return Finding(
            False, f"the clock of {peer.name} is {skew:+.0f} s from that of {platform.node()}: set the one that is wrong"
        )
    return Finding(
        True, f"{peer.name} answers at {peer.address}, with the same version and file; its clock is {skew:+.1f} s from here"
    )


def _asked(roster: Roster, other: int) -> Hello:
    """Return the greeting of another peer."""
    hello = Hello(
        run=roster.digest, version=consensus.__version__, sender=roster.names[roster.me], time=time.time(), probe=True
    )
    frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    frames.put(packed(Frame(hello=hello)))
    opened = channel(roster, other)
    try:
        for answer in opened.stream_stream("/" + "/".join(METHOD))(iter(frames.get, None), timeout=_LOOK):
            found: Hello = unpacked(answer)[0].hello
            return found
        return Hello()
    finally:
        frames.put(None)
        opened.close()
