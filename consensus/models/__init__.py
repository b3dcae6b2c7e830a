"""Models: what turns parameters and features into outputs."""

from typing import TYPE_CHECKING

from consensus._elsewhere import elsewhere
from consensus.models.base import Model
from consensus.models.layout import NamedArray
from consensus.models.linear import Linear
from consensus.models.linearization import Linearization, linearize
from consensus.models.mlp import MLP

if TYPE_CHECKING:
    from consensus.deep.convolutional import Convolutional as Convolutional
    from consensus.deep.direct_feedback import DirectFeedback as DirectFeedback
    from consensus.deep.resnet import ResNet as ResNet
    from consensus.deep.with_tangents import WithTangents as WithTangents
    from consensus.frameworks.jax import JAX as JAX
    from consensus.frameworks.safetensors import save_safetensors as save_safetensors
    from consensus.frameworks.torch import Torch as Torch

__getattr__, __dir__ = elsewhere(
    __name__,
    {
        "Convolutional": "consensus.deep.convolutional",
        "DirectFeedback": "consensus.deep.direct_feedback",
        "JAX": "consensus.frameworks.jax",
        "ResNet": "consensus.deep.resnet",
        "Torch": "consensus.frameworks.torch",
        "WithTangents": "consensus.deep.with_tangents",
        "save_safetensors": "consensus.frameworks.safetensors",
    },
)

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
