"""How what all ranks collect travels between them: to each machine once, and there from rank to rank."""

from collections.abc import Sequence
from typing import TypeAlias

Step: TypeAlias = tuple[list[tuple[int, int]], list[tuple[int, int]]]


def routes(me: int, hosts: Sequence[str]) -> list[Step]:
    """Return what a rank receives and sends so that all ranks come to have the rows of all.

    First every rank sends its rows to the ranks of its machine, and to one rank of each other machine; those pass them on.

    Parameters
    ----------
    me : int
        The rank.
    hosts : sequence of str
        The machine of each rank.

    Returns
    -------
    list of (list of (int, int), list of (int, int))
        For each of two steps what is received, ``(from, owner)``, and what is sent, ``(to, owner)``: the rows of the rank
        ``owner``. Two ranks name the rows between them in the same order.

    Examples
    --------
    >>> from consensus.engines.routes import routes
    >>> routes(0, ["a", "a", "b", "b"])
    [([(1, 1), (2, 2)], [(1, 0), (2, 0)]), ([(1, 3)], [(1, 2)])]
    >>> routes(1, ["a", "a", "a"])
    [([(0, 0), (2, 2)], [(0, 1), (2, 1)]), ([], [])]
    """
    ranks = range(len(hosts))
    members = {host: [rank for rank in ranks if hosts[rank] == host] for host in hosts}

    def takes(rank: int, host: str) -> int:
        """Return which rank of a host takes the rows of a rank elsewhere."""
        return members[host][rank % len(members[host])]

    here = [rank for rank in members[hosts[me]] if rank != me]
    taken = {rank: takes(rank, hosts[me]) for rank in ranks if hosts[rank] != hosts[me]}
    mine = [rank for rank, taker in taken.items() if taker == me]
    direct = here + [takes(me, host) for host in members if host != hosts[me]]
    first = [(rank, rank) for rank in here + mine], [(rank, me) for rank in direct]
    passed = [(taker, rank) for rank, taker in taken.items() if taker != me], [(rank, owner) for rank in here for owner in mine]
    return [first, passed]
