"""Blocks of agents on MPI ranks, of one machine or many."""

from consensus.engines.base import Engine


class MPI(Engine):
    def run(self, *a): raise NotImplementedError
