"""Samples that are read as they are needed, and shards in folders.

They are ``consensus.data.LazyShards``, ``load_shards`` and ``save_shards``, and ``consensus.problems.LazyProblem``.
"""
