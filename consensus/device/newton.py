"""Linear systems of curvature on a device: Newton's directions, and local problems that are such systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from consensus.device.problem import DeviceProblem
from consensus.device.rows import DeviceRows
from consensus.frameworks.torch_calls import loaded
from consensus.local.base import LocalSolution
from consensus.local.exact import Exact, newton_directions
from consensus.regularizers import Regularizer
from consensus.solvers.adaptive import gauss_newton
from consensus.surrogates.linearizations import BlockModel, LinearizedModel

if TYPE_CHECKING:
    from torch import Tensor

_COLUMNS = 64  # of Gauss-Newton matrices that are made together
NEWTON = (
    "partial linearization runs there with SquaredLoss, L2 or no regularizer, all samples and no Blocks: its local problems "
    "are then linear systems, and Newton's method for others is the host's"
)


def of_device(problem: DeviceProblem, w: Any, right: Any, damping: float) -> Any:  # noqa: ANN401  # DeviceRows
    """Return ``(B_i + damping I)^-1 right_i`` (agents, P): see :func:`consensus.local.exact.newton_directions`."""
    problem.work.solves += 1
    return _solved(problem, w, right, problem.network_size, damping + problem.regularizer.strong_convexity)


newton_directions.register(DeviceProblem, of_device)


class DeviceExact(Exact):
    """Local problems that are linear systems, of the squared loss with a quadratic r, or take one prox."""

    def solve(
        self,
        model: Any,  # noqa: ANN401  # as Exact's, of DeviceRows
        linear: np.ndarray,
        regularizer: Regularizer,
        start: np.ndarray | None = None,
        tolerance: float = 1e-8,
    ) -> LocalSolution:
        inner = model.model if isinstance(model, BlockModel) else model
        if not isinstance(inner, LinearizedModel):
            return super().solve(model, linear, regularizer, start, tolerance)
        problem: Any = inner.problem
        whole = inner is model and isinstance(problem, DeviceProblem)  # neither in Blocks nor of a batch
        if not (whole and problem.loss.quadratic and regularizer.quadratic):
            raise TypeError(NEWTON)
        m = regularizer.strong_convexity
        d = _solved(problem, model.w, linear + model.gradient + m * model.w, model.scale, model.tau + m)
        return LocalSolution(model.w - d, np.ones(problem.agents, int))


def _solved(problem: DeviceProblem, w: Any, right: Any, scale: float, k: float) -> Any:  # noqa: ANN401
    """Return ``(s J_i'S_i J_i + k I)^-1 right_i`` by Cholesky factors (agents, P, P); NaN where a matrix is not definite."""
    torch: Any = loaded()
    products: Callable[..., Any] = gauss_newton.products

    def factors() -> tuple[Tensor, Tensor]:
        identity = torch.eye(problem.parameters, dtype=w.tensor.dtype, device=w.tensor.device)
        columns = [products(problem, w, DeviceRows(part)).tensor for part in identity.split(_COLUMNS, dim=1)]
        matrices = scale * torch.cat(columns, dim=2) + k * identity
        found = torch.linalg.cholesky_ex((matrices + matrices.mT) / 2)
        return found.L, found.info > 0

    constant = problem.loss.quadratic and getattr(problem.model, "jacobian_is_constant", False)
    lower, failed = problem.cache.get((_solved, scale, k), factors) if constant else factors()
    solution = torch.cholesky_solve(right.tensor[:, :, None], lower)[:, :, 0]
    return DeviceRows(torch.where(failed[:, None], torch.nan, solution))
