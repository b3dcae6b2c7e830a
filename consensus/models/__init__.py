"""Models: what turns parameters and features into outputs."""

from consensus.models.base import Model, linearize
from consensus.models.check import check
from consensus.models.linear import Linear
from consensus.models.mlp import MLP

__all__ = ["MLP", "Linear", "Model", "check", "linearize"]
