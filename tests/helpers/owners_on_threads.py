"""Owners on ranks that are threads of this process."""

from contextlib import contextmanager

from consensus.data import own
from consensus.engines.ranks import agree
from consensus.workers.blocks import blocks_of
from tests.helpers.ranks_on_threads import together


class OnThreads:
    """An engine as far as owners need one, for one of the threads of ``together``."""

    def __init__(self, ranks):
        self.ranks, self.size = ranks, ranks.size

    def rows(self, agents):
        return blocks_of(agents, self.size)[self.ranks.me]

    def allgather(self, items):
        return [item for part in self.ranks.allgather(list(items)) for item in part]

    @contextmanager
    def agreed(self):
        error = None
        try:
            yield {}
        except Exception as caught:
            error = caught
        agree(self.ranks, error, {})


def on_ranks(tables, target, **settings):
    """What each of the owners gets, on a rank of its own."""
    return together(len(tables), lambda ranks: own(tables[ranks.me], target, engine=OnThreads(ranks), **settings))


def errors_of(tables, target, **settings):
    """What each of the owners is told, on a rank of its own."""

    def told(ranks):
        try:
            own(tables[ranks.me], target, engine=OnThreads(ranks), **settings)
        except (ValueError, TypeError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return None

    return together(len(tables), told)
