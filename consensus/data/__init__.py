"""Data: shards of agents, data sets by name, tables of one's own, training and test parts."""

from consensus.data.folders import load_shards, save_shards
from consensus.data.frames import Columns
from consensus.data.lazy import LazyShards
from consensus.data.partitions import partition
from consensus.data.shards import Shards

__all__ = ["Columns", "LazyShards", "Shards", "load_shards", "partition", "save_shards"]
