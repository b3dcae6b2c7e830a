"""Models: what turns parameters and features into outputs."""

from consensus.models.base import Model
from consensus.models.direct_feedback import DirectFeedback
from consensus.models.jax import JAX
from consensus.models.layout import NamedArray
from consensus.models.linear import Linear
from consensus.models.linearization import Linearization, linearize
from consensus.models.mlp import MLP
from consensus.models.resnet import ResNet
from consensus.models.safetensors import save_safetensors
from consensus.models.torch import Torch

__all__ = [
    "JAX",
    "MLP",
    "DirectFeedback",
    "Linear",
    "Linearization",
    "Model",
    "NamedArray",
    "ResNet",
    "Torch",
    "linearize",
    "save_safetensors",
]
