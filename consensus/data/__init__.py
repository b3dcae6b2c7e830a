"""Data: shards of agents, data sets by name, tables of one's own, training and test parts."""

from consensus.data.folders import load_shards, save_shards
from consensus.data.frames import Columns
from consensus.data.lazy import LazyShards
from consensus.data.owned import Owned, own
from consensus.data.partitions import partition
from consensus.data.pipeline import Pipeline
from consensus.data.shards import Shards

__all__ = ["Columns", "LazyShards", "Owned", "Pipeline", "Shards", "load_shards", "own", "partition", "save_shards"]
