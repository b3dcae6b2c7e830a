"""Models: what turns parameters and features into outputs."""

from consensus.models.base import linearize
from consensus.models.linear import Linear
from consensus.models.mlp import MLP

__all__ = ["MLP", "Linear", "linearize"]
