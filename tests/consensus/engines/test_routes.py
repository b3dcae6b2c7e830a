"""How what all ranks collect travels: everyone comes to have everything, and machines get it once."""

import itertools

import pytest

from consensus.asynchronous.post import ANSWER, COUNT, MAIL, ORDER
from consensus.asynchronous.torch_ranks import LEAVES, TAKEN
from consensus.engines.ranks import routes
from consensus.engines.transport import COLLECTED, MIXED, NOTES, UNEVEN


def test_messages_of_different_kinds_have_different_tags():
    mail = MAIL, COUNT, ORDER, ANSWER
    assert len({MIXED, COLLECTED, UNEVEN, NOTES, LEAVES, *mail, *(kind + TAKEN for kind in mail)}) == 13


@pytest.mark.parametrize("hosts", ["a", "ab", "aabb", "aaabbc", "abababa", "aaaab", "abcde", "aaaaaaa"])
def test_all_ranks_get_all_rows_and_each_host_gets_them_once(hosts):
    ranks = range(len(hosts))
    steps = list(zip(*(routes(me, hosts) for me in ranks), strict=True))
    has = [{me} for me in ranks]
    crossed = []
    for step in steps:
        before = [set(owners) for owners in has]
        for one, other in itertools.permutations(ranks, 2):
            sent = [owner for rank, owner in step[one][1] if rank == other]
            assert sent == [owner for rank, owner in step[other][0] if rank == one]  # in the same order
            assert before[one] >= set(sent)
            assert not has[other] & set(sent)  # nothing arrives twice
            has[other] |= set(sent)
            crossed += [(owner, hosts[other]) for owner in sent if hosts[one] != hosts[other]]
    assert has == [set(ranks)] * len(hosts)
    assert sorted(crossed) == sorted((owner, host) for owner in ranks for host in set(hosts) - {hosts[owner]})
