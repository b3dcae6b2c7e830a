"""Linear systems of curvature on a device, for Newton's directions and for local problems."""

from __future__ import annotations

from typing import Any

from consensus.device.rows import DeviceRows
from consensus.frameworks.torch_calls import loaded
from consensus.local.operators import times_root, times_root_transposed
from consensus.local.systems import Estimate, Iterative, System, lost, refined
from consensus.regularizers import Regularizer

_COLUMNS = 64  # of Gauss-Newton matrices that are made together
_LARGEST = 1 << 27  # numbers in these of all agents
NEWTON = "local problems of partial linearization do not run there in Blocks"


class Cholesky:
    """Systems of order P, by Cholesky factors of all agents together; NaN where a matrix is not definite."""

    ready, inverses = False, None

    @staticmethod
    def numbers(n: int, P: int) -> int:
        return P * P

    def __init__(self, operator: Any, once: bool, constant: bool) -> None:  # noqa: ANN401  # a DeviceLinearization
        self.operator = operator

    def set(self, root: Any, k: float) -> None:  # noqa: ANN401  # DeviceRows, as below
        torch, self.root, self.k = loaded(), root[:, None], k
        agents, parameters = self.operator.shape
        identity = torch.eye(parameters, dtype=root.tensor.dtype, device=root.tensor.device)
        rows = [self._curved(DeviceRows(part.expand(agents, -1, -1))).tensor for part in identity.split(_COLUMNS)]
        matrices = torch.cat(rows, dim=1)
        of_rows: Any = DeviceRows(matrices)
        self.lost = lost(of_rows, k)
        found = torch.linalg.cholesky_ex((matrices + matrices.mT) / 2 + k * identity)
        self.lower = torch.where(found.info[:, None, None] > 0, torch.nan, found.L)
        self.ready = True

    def at_once(self, tolerance: float) -> Any:  # noqa: ANN401  # as System has it
        return self._once if (self.lost <= tolerance).all() else None

    def solve(self, u: Any, tolerance: Any, most: int) -> tuple[Any, Any, Any]:  # noqa: ANN401
        return refined(self._once, lambda v: self._curved(v[:, None])[:, 0] + self.k * v, u, tolerance, self.lost)

    def _once(self, u: Any) -> Any:  # noqa: ANN401
        return DeviceRows(loaded().cholesky_solve(u.tensor[:, :, None], self.lower)[:, :, 0])

    def _curved(self, v: Any) -> Any:  # noqa: ANN401
        """Return J' S J v (agents, count, P)."""
        return self.operator.vjp(times_root(self.root, times_root_transposed(self.root, self.operator.jvp(v))))


SYSTEMS: dict[str, type[System]] = {"primal": Cholesky, "dual": Cholesky, "iterative": Iterative}


def estimated(problem: Any, regularizer: Regularizer, columns: int, dense: bool) -> dict[str, Estimate]:  # noqa: ANN401
    """Return the ways of local problems on a device, all agents at once: see :func:`consensus.local.systems.estimates`."""
    if columns < problem.parameters:
        raise TypeError(NEWTON)
    direct = regularizer.quadratic and problem.agents * columns**2 <= _LARGEST
    return {"iterative": Estimate(1, 0)} | ({"primal": Estimate(0, 0)} if direct else {})
