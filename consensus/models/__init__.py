"""Models: what turns parameters and features into outputs."""

from consensus.models.base import Model
from consensus.models.convolutional import Convolutional
from consensus.models.direct_feedback import DirectFeedback
from consensus.models.jax import JAX
from consensus.models.layout import NamedArray
from consensus.models.linear import Linear
from consensus.models.linearization import Linearization, linearize
from consensus.models.mlp import MLP
from consensus.models.resnet import ResNet
from consensus.models.safetensors import save_safetensors
from consensus.models.torch import Torch
from consensus.models.with_tangents import WithTangents

__all__ = [
    "JAX",
    "MLP",
    "Convolutional",
    "DirectFeedback",
    "Linear",
    "Linearization",
    "Model",
    "NamedArray",
    "ResNet",
    "Torch",
    "WithTangents",
    "linearize",
    "save_safetensors",
]
