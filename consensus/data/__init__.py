"""Data: shards of agents, data sets by name, tables of one's own, training and test parts."""

from typing import TYPE_CHECKING

from consensus._elsewhere import elsewhere
from consensus.data.frames import Columns
from consensus.data.partitions import partition
from consensus.data.shards import Shards

if TYPE_CHECKING:
    from consensus.owners.owned import Owned as Owned
    from consensus.owners.owned import own as own
    from consensus.streaming.folders import load_shards as load_shards
    from consensus.streaming.folders import save_shards as save_shards
    from consensus.streaming.lazy_shards import LazyShards as LazyShards
    from consensus.tables.pipeline import Pipeline as Pipeline

__getattr__, __dir__ = elsewhere(
    __name__,
    {
        "LazyShards": "consensus.streaming.lazy_shards",
        "Owned": "consensus.owners.owned",
        "Pipeline": "consensus.tables.pipeline",
        "load_shards": "consensus.streaming.folders",
        "own": "consensus.owners.owned",
        "save_shards": "consensus.streaming.folders",
    },
)

__all__ = ["Columns", "LazyShards", "Owned", "Pipeline", "Shards", "load_shards", "own", "partition", "save_shards"]
