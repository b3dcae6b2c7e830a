"""Systems with a server, and one network on several workers, to compare with: the same problems, histories and accounts."""

from consensus.federated.fed_adam import FedAdagrad, FedAdam, FedYogi
from consensus.federated.fed_avg import FedAvg
from consensus.federated.fed_dyn import FedDyn
from consensus.federated.fed_nova import FedNova
from consensus.federated.fed_prox import FedProx
from consensus.federated.scaffold import SCAFFOLD
from consensus.model_parallel.grid import Grid
from consensus.model_parallel.layer_parallel import LayerParallel
from consensus.model_parallel.mlp import ShardedMLP
from consensus.model_parallel.split_mlp import SplitMLP
from consensus.model_parallel.split_transformer import SplitTransformer
from consensus.model_parallel.transformer import ShardedTransformer
from consensus.servers.dask_mapper import Dask
from consensus.servers.downpour import DownpourSGD
from consensus.servers.map_reduce import MapReduceGradientDescent
from consensus.servers.mappers import Joblib, Own
from consensus.servers.sandblaster import SandblasterLBFGS
from consensus.servers.solve import solve
from consensus.servers.synchronous_sgd import SynchronousSGD
from consensus.servers.system import System, Traffic

__all__ = [
    "SCAFFOLD",
    "Dask",
    "DownpourSGD",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedDyn",
    "FedNova",
    "FedProx",
    "FedYogi",
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
