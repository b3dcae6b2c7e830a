"""The peers of a run and the edges between them, as the file of the run says."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import networkx as nx

import consensus
from consensus import _checks
from consensus.peers.certificates import checked_name, fingerprint, fits, said_name
from topologies.schedules import Static

_SETTINGS = ("lost", "grace")  # of [peers], beside the peers themselves
_GRACE = 30.0  # seconds by which a peer may be late before the others go on without it
_OF_PEER = ("address", "certificate", "agents")


@dataclass(frozen=True)
class Peer:
    """A peer: its ``name``, ``address`` (None if nobody can reach it, and it calls the others), and ``certificate`` in PEM."""

    name: str
    address: str | None
    certificate: bytes

    @cached_property
    def fingerprint(self) -> bytes:
        return fingerprint(self.certificate)


@dataclass(frozen=True)
class Roster:
    """The ``peers`` of a run, in the order of its file, ``me`` by number, the ``edges`` by number, and the run's ``digest``.

    The run ``leaves`` who is lost, ``grace`` seconds late at least, or waits for it.
    """

    path: Path
    peers: tuple[Peer, ...]
    edges: tuple[tuple[int, int], ...]
    me: int
    digest: bytes
    key: bytes
    values: dict[str, Any]
    leaves: bool = False
    grace: float = _GRACE

    @classmethod
    def read(cls, path: str | os.PathLike[str], me: str) -> Roster:
        """Read the file of a run and its certificates; ``ValueError`` says what is wrong with them."""
        path = _checks.path("path", path)
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"path must be the file of a run; cannot read {path}: {error.strerror}") from error
        except ValueError as error:
            raise ValueError(f"path must be the file of a run; {path.name} is no TOML: {error}") from error
        table, network = values.get("peers"), values.get("network")
        if not isinstance(table, dict) or not isinstance(network, dict):
            raise ValueError(f"{path.name} must have the tables [peers] and [network]: see docs/peers.md")
        leaves, grace = _lost(path, table.get("lost", "wait"), table.get("grace"))
        peers = tuple(_peer(path, name, one) for name, one in table.items() if name not in _SETTINGS)
        names = [peer.name for peer in peers]
        if me not in names:
            raise ValueError(f"me must be one of the peers in {path.name}, {', '.join(names)}; got {_checks.shown(me)}")
        if len({peer.fingerprint for peer in peers}) < len(peers):
            raise ValueError(f"two peers in {path.name} have one certificate: each makes its own by consensus-opt keys NAME")
        edges = _edges(path, names, network.get("edges"), peers)
        key = _key(path, table[me]["certificate"], peers[names.index(me)])
        said = json.dumps(
            [values, [peer.fingerprint.hex() for peer in peers], consensus.__version__], sort_keys=True, default=str
        )
        return cls(path, peers, edges, names.index(me), hashlib.sha256(said.encode()).digest(), key, values, leaves, grace)

    @property
    def names(self) -> list[str]:
        """The names of the peers."""
        return [peer.name for peer in self.peers]

    @property
    def neighbours(self) -> list[int]:
        """The peers with whom this one has an edge."""
        return sorted({a + b - self.me for a, b in self.edges if self.me in (a, b)})

    def dials(self, other: int) -> bool:
        """Return whether this peer calls another one: the later calls the earlier, unless that cannot be reached."""
        first, last = sorted((self.me, other))
        caller = last if self.peers[first].address else first
        return caller == self.me

    def graph(self, members: Sequence[int] | None = None, cut: Sequence[tuple[int, int]] = ()) -> nx.Graph:
        """Return the graph of the peers' numbers; of some ``members``, without the edges ``cut``, by their places in these."""
        place = {peer: place for place, peer in enumerate(range(len(self.peers)) if members is None else members)}
        graph = nx.empty_graph(len(place))
        graph.add_edges_from((place[a], place[b]) for a, b in self.edges if a in place and b in place and (a, b) not in cut)
        return graph

    def network(self, members: Sequence[int] | None = None, cut: Sequence[tuple[int, int]] = ()) -> Static:
        """Return the network of all peers, or of some ``members`` and edges, with their names, and Metropolis weights."""
        names = self.names if members is None else [self.names[peer] for peer in members]
        return Static(nx.relabel_nodes(self.graph(members, cut), dict(enumerate(names))))


def _lost(path: Path, lost: object, grace: object) -> tuple[bool, float]:
    """Return whether a run goes on without those who are lost, and the least seconds by which these are late."""
    if lost not in ("wait", "leave"):
        raise ValueError(f'lost in {path.name} must be "wait" or "leave"; got {_checks.shown(lost)}')
    if grace is not None and lost == "wait":
        raise ValueError(
            f'grace in {path.name} goes with lost = "leave": with lost = "wait" all wait as long as their patience'
        )
    found = _GRACE if grace is None else _checks.number(f"grace in {path.name}", grace, above=0)
    return lost == "leave", found


def _peer(path: Path, name: str, found: object) -> Peer:
    checked_name(f"a peer in {path.name}", name)
    if not isinstance(found, dict) or "certificate" not in found:
        raise ValueError(f'{name} in {path.name} must be {{address = "host:port", certificate = "{name}.pem"}}; got {found!r}')
    for setting in found:
        if setting not in _OF_PEER:
            raise ValueError(f"{name} in {path.name} has {', '.join(_OF_PEER)} and no {setting!r}")
    if found.get("agents", 1) != 1:
        raise ValueError(f"agents of {name} in {path.name} must be 1, as each peer is one agent; got {found['agents']!r}")
    address, place = found.get("address"), path.parent / str(found["certificate"])
    if address is not None:
        host, _, port = str(address).rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(
                f'address of {name} in {path.name} must be "host:port", such as "oslo.example:7443"; got {address!r}'
            )
    try:
        certificate = place.read_bytes()
        said = said_name(certificate)
    except OSError as error:
        raise ValueError(
            f"certificate of {name} in {path.name}: cannot read {place} ({error.strerror}); its owner makes it by "
            f"consensus-opt keys {name}, and sends it to all"
        ) from error
    except ValueError as error:
        raise ValueError(f"certificate of {name} in {path.name}: {place} is no certificate in PEM ({error})") from error
    if said != name:
        raise ValueError(f"certificate of {name} in {path.name}: {place} is that of {said}; ask {name} for its own")
    return Peer(name, address, certificate)


def _edges(path: Path, names: list[str], found: object, peers: tuple[Peer, ...]) -> tuple[tuple[int, int], ...]:
    wanted = f'edges of [network] in {path.name} must be a list of pairs of peers, as [["oslo", "rome"], ["rome", "vienna"]]'
    if not isinstance(found, list) or not all(isinstance(edge, list) and len(edge) == 2 for edge in found):
        raise ValueError(f"{wanted}; got {_checks.shown(found)}")
    for edge in found:
        for name in edge:
            if name not in names:
                raise ValueError(f"{wanted}; {name!r} is none of the peers {', '.join(names)}")
        if edge[0] == edge[1]:
            raise ValueError(f"{wanted}; {edge[0]!r} has an edge to itself")
        if not any(peer.address for peer in peers if peer.name in edge):
            raise ValueError(f"{edge[0]} and {edge[1]} in {path.name} have no address: one of the two must be reachable")
    edges = sorted({(min(pair), max(pair)) for pair in ((names.index(a), names.index(b)) for a, b in found)})
    graph = nx.empty_graph(len(names))
    graph.add_edges_from(edges)
    if not nx.is_connected(graph):
        parts = "; ".join(", ".join(names[peer] for peer in sorted(part)) for part in nx.connected_components(graph))
        raise ValueError(f"the network in {path.name} must be connected, and falls into {parts}: add an edge between them")
    return tuple(edges)


def _key(path: Path, certificate: str, peer: Peer) -> bytes:
    """Return the private key beside a peer's certificate."""
    place = (path.parent / certificate).with_suffix(".key")
    try:
        key = place.read_bytes()
        mode = place.stat().st_mode
    except OSError as error:
        raise ValueError(
            f"cannot read the key of {peer.name}, {place} ({error.strerror}): it is beside the certificate where "
            f"consensus-opt keys {peer.name} made both"
        ) from error
    if os.name == "posix" and mode & 0o077:
        raise ValueError(f"others can read the key {place}: chmod 600 {place}, and if they may have, make a new one")
    try:
        whole = fits(key, peer.certificate)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{place} is no private key in PEM without a password: {error}") from error
    if not whole:
        raise ValueError(f"the key {place} is not that of the certificate of {peer.name} in {path.name}")
    return key
