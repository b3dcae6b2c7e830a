"""Losses: the cost of a sample's outputs, given its target."""

from typing import TYPE_CHECKING

from consensus._elsewhere import elsewhere
from consensus.losses.base import Loss
from consensus.losses.cross_entropy import CrossEntropy
from consensus.losses.huber import Huber
from consensus.losses.logistic import LogisticLoss
from consensus.losses.squared import SquaredLoss

if TYPE_CHECKING:
    from consensus.deep.tangent_propagation import TangentPropagation as TangentPropagation
    from consensus.frameworks.torch_loss import TorchLoss as TorchLoss
    from consensus.owners.log_link import GammaLoss as GammaLoss
    from consensus.owners.log_link import NegativeBinomialLoss as NegativeBinomialLoss
    from consensus.owners.log_link import PoissonLoss as PoissonLoss

__getattr__, __dir__ = elsewhere(
    __name__,
    {
        "GammaLoss": "consensus.owners.log_link",
        "NegativeBinomialLoss": "consensus.owners.log_link",
        "PoissonLoss": "consensus.owners.log_link",
        "TangentPropagation": "consensus.deep.tangent_propagation",
        "TorchLoss": "consensus.frameworks.torch_loss",
    },
)

__all__ = ["CrossEntropy", "Huber", "LogisticLoss", "Loss", "SquaredLoss", "TangentPropagation", "TorchLoss"]
__all__ += ["GammaLoss", "NegativeBinomialLoss", "PoissonLoss"]
