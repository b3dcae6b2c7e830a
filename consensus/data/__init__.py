"""Data: shards of agents, data sets by name, tables of one's own, training and test parts."""

from consensus.data.shards import Shards, load_shards, partition, save_shards

__all__ = ["Shards", "load_shards", "partition", "save_shards"]
