"""Receives posted before their messages are due: both ends agree on tags, and nothing arrives in another place."""

from collections import defaultdict, deque

import numpy as np
import pytest

from consensus.engines.transport import LostRank
from consensus.frameworks.ahead import _AHEAD, _MOST, Ahead, Sizes

KIND = 1904


class Link:
    """One way between two ranks as gloo has it: messages of one tag meet receives of that tag, in order."""

    def __init__(self):
        self.posted, self.sent, self.going = defaultdict(deque), defaultdict(deque), Sizes(KIND)
        self.coming, self.lost, self.at_once = Ahead(KIND, self.receive), False, 0

    def receive(self, rows, tag):
        if self.lost:
            raise LostRank(1)
        self.posted[tag].append(rows)
        self.meet(tag)
        return tag

    def send(self, message):
        tag = self.going.tag if self.going.fits(message.size) else KIND
        self.at_once += bool(self.posted[tag])  # it need not ask first
        self.sent[tag].append(message)
        self.meet(tag)

    def meet(self, tag):
        while self.posted[tag] and self.sent[tag]:
            message, rows = self.sent[tag].popleft(), self.posted[tag].popleft()
            assert message.size <= rows.size, "gloo refuses messages longer than the room for them"
            rows[: message.size] = message

    def exchange(self, messages, receiver_first):
        """Send messages that are under way together; return what arrived."""
        rooms = [np.zeros(message.size, np.uint8) for message in messages]
        if not receiver_first:
            list(map(self.send, messages))
        over = [self.coming.begin(rows)[1] for rows in rooms]
        if receiver_first:
            list(map(self.send, messages))
        for last in filter(None, over):
            last()
        return rooms


@pytest.mark.parametrize("seed", range(20))
def test_every_message_arrives_where_it_is_waited_for(seed):
    draws, link = np.random.default_rng(seed), Link()
    for _ in range(60):
        sizes = np.int64(2 ** draws.uniform(0, 16, draws.integers(1, 5))) - 1
        messages = [draws.integers(0, 256, size, np.uint8) for size in sizes]
        for sent, arrived in zip(messages, link.exchange(messages, draws.random() < 0.5), strict=True):
            assert np.array_equal(sent, arrived)


def test_messages_of_known_sizes_never_ask():
    link, message = Link(), np.arange(5000, dtype=np.uint16).view(np.uint8)
    link.exchange([message], receiver_first=False)
    assert link.at_once == 0
    for size in [10_000, 9_999, 1, 0] * 5:
        link.exchange([message[:size]], receiver_first=False)
    assert link.at_once == 20
    link.exchange([message] * 3, receiver_first=False)
    assert link.at_once == 20 + _AHEAD


def test_sizes_are_few_and_large_messages_take_no_memory():
    link = Link()
    for size in range(1, 20_000, 7):
        link.exchange([np.zeros(size, np.uint8)], receiver_first=False)
    assert sum(buffer.size for buffers in link.posted.values() for buffer in buffers) == _AHEAD * (4096 + 8192 + 16384 + 32768)
    link = Link()
    large = np.arange(_MOST + 1, dtype=np.uint32).view(np.uint8)[: _MOST + 1]
    for _ in range(3):
        (arrived,) = link.exchange([large], receiver_first=False)
        assert np.array_equal(arrived, large)
    assert not any(link.posted.values())


def test_the_last_message_of_a_rank_that_ends_arrives():
    link, message = Link(), np.arange(100, dtype=np.uint8)
    for _ in range(2):
        link.exchange([message], receiver_first=False)
    link.send(message)
    rows = np.zeros(100, np.uint8)
    _, over = link.coming.begin(rows)
    link.lost = True  # it has ended: nothing more can be asked for
    over()
    assert np.array_equal(rows, message)
    link.coming.begin(rows)  # of the message that was asked for before
    with pytest.raises(LostRank):
        link.coming.begin(rows)
