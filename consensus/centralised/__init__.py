"""The classical systems with a server, to compare with: on the same problems, histories and accounts of bytes and work."""

from consensus.centralised.dask_mapper import Dask
from consensus.centralised.downpour import DownpourSGD
from consensus.centralised.fed_adam import FedAdam
from consensus.centralised.fed_avg import FedAvg
from consensus.centralised.layer_parallel import LayerParallel
from consensus.centralised.map_reduce import MapReduceGradientDescent
from consensus.centralised.mappers import Joblib, Own
from consensus.centralised.sandblaster import SandblasterLBFGS
from consensus.centralised.scaffold import SCAFFOLD
from consensus.centralised.solve import solve
from consensus.centralised.split_mlp import SplitMLP
from consensus.centralised.split_transformer import SplitTransformer
from consensus.centralised.synchronous_sgd import SynchronousSGD
from consensus.centralised.system import System, Traffic
from consensus.centralised.tensor.grid import Grid
from consensus.centralised.tensor.mlp import ShardedMLP
from consensus.centralised.tensor.transformer import ShardedTransformer

__all__ = [
    "SCAFFOLD",
    "Dask",
    "DownpourSGD",
    "FedAdam",
    "FedAvg",
    "Grid",
    "Joblib",
    "LayerParallel",
    "MapReduceGradientDescent",
    "Own",
    "SandblasterLBFGS",
    "ShardedMLP",
    "ShardedTransformer",
    "SplitMLP",
    "SplitTransformer",
    "SynchronousSGD",
    "System",
    "Traffic",
    "solve",
]
