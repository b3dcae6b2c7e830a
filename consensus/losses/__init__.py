"""Losses: the cost of a sample's outputs, given its target."""

from consensus.losses.base import Loss
from consensus.losses.cross_entropy import CrossEntropy
from consensus.losses.huber import Huber
from consensus.losses.logistic import LogisticLoss
from consensus.losses.squared import SquaredLoss
from consensus.losses.tangent_propagation import TangentPropagation
from consensus.losses.torch_loss import TorchLoss

__all__ = ["CrossEntropy", "Huber", "LogisticLoss", "Loss", "SquaredLoss", "TangentPropagation", "TorchLoss"]
