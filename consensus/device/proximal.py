"""Proximal local problems on a device: those of AdaptiveNEXT for all agents together, and factors of their systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from consensus.device.rows import DeviceRows
from consensus.frameworks.torch_calls import loaded
from consensus.local.exact import proximal
from consensus.local.newton import has_prox_jvp
from consensus.regularizers import Regularizer

if TYPE_CHECKING:
    from torch import Tensor


class Divided(Regularizer):
    """``r / tau`` with a tau of each agent, for points of all agents."""

    def __init__(self, r: Regularizer, tau: Any) -> None:  # noqa: ANN401  # DeviceRows, as below
        self.r, self.tau = r, tau
        if r.prox_slope is not None:
            self.prox_slope = lambda v, step: r.prox_slope(v, self._step(step))

    def value(self, w: Any) -> Any:  # noqa: ANN401
        return self.r.value(w) / self.tau

    def prox(self, v: Any, step: Any) -> Any:  # noqa: ANN401
        return self.r.prox(v, self._step(step))

    def active(self, v: Any, step: Any) -> Any:  # noqa: ANN401
        return self.r.active(v, self._step(step))

    def _step(self, step: Any) -> Any:  # noqa: ANN401
        return step / self.tau[:, None]


class DividedWithSlopes(Divided):
    """The same, of an r that has ``prox_jvp``."""

    def prox_jvp(self, v: Any, step: Any, d: Any) -> Any:  # noqa: ANN401
        return self.r.prox_jvp(v, self._step(step), d)


def all_proximal(V: Any, tau: Any, w: Any, gradient: Any, regularizer: Regularizer, tolerance: float) -> Any:  # noqa: ANN401
    """Return what :func:`consensus.local.exact.each_proximal` does, by one Newton's method of all agents.

    The problems are divided by their tau, which every one of them has then as 1; those that are left take their turn.
    """
    divided = (DividedWithSlopes if has_prox_jvp(regularizer) else Divided)(regularizer, tau)
    d, good = cast(Any, proximal)(V / np.sqrt(tau)[:, None, None], 1.0, w, gradient / tau[:, None], divided, tolerance)
    for agent in np.flatnonzero(~good.host()):
        one = slice(int(agent), int(agent) + 1)
        d[one], _ = proximal(V[one], float(tau[agent]), w[one], gradient[one], regularizer, tolerance)
    return d


@dataclass(frozen=True, eq=False)
class Lower:
    """Cholesky factors (agents, n, n) on a device: see :class:`consensus.local.systems.Factors`."""

    factors: Tensor

    @classmethod
    def of(cls, matrices: DeviceRows, shift: float) -> Self:
        """Factor ``M_i + shift I``, or where rounding makes that indefinite, with the rounding added to its diagonal."""
        torch, M = loaded(), (matrices.tensor + matrices.tensor.mT) / 2
        diagonal = M.diagonal(dim1=1, dim2=2)  # a view
        rounding = diagonal.shape[1] * torch.finfo(M.dtype).eps * diagonal.sum(1, keepdim=True)
        diagonal += shift
        found, failed = torch.linalg.cholesky_ex(M)
        if DeviceRows(failed.any()):
            diagonal += torch.where(failed[:, None] > 0, rounding, 0)
            found, failed = torch.linalg.cholesky_ex(M)
        return cls(torch.where(failed[:, None, None] > 0, torch.nan, found))

    def solve(self, right: DeviceRows) -> DeviceRows:
        """Return ``M_i^-1 b_i`` for b (agents, n); rows of NaN where there is no factor."""
        return DeviceRows(loaded().cholesky_solve(right.tensor[:, :, None], self.factors)[:, :, 0])
