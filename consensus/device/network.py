"""The network of agents whose rows are on a device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp

from consensus.communication.messages import Messages
from consensus.communication.packed import Packed
from consensus.device.rows import DeviceRows
from consensus.engines.stacked import StackedNetwork
from consensus.frameworks.torch_calls import loaded

if TYPE_CHECKING:
    from torch import Tensor

    from topologies.schedules import ScheduleLike

_DENSE = 256  # agents up to which a full matrix takes less time than a sparse one


class DeviceNetwork(StackedNetwork):
    """Mixes rows on a device, by a full matrix among few agents and a sparse one among many; counts as all networks do."""

    def __init__(self, schedule: ScheduleLike, dtype: np.dtype, device: str) -> None:
        self._device = device
        super().__init__(schedule, dtype)

    def _prepare(self, whole: sp.csr_array, matrix: sp.csr_array) -> tuple[sp.csr_array, Tensor]:
        torch = loaded()
        if matrix.shape[0] <= _DENSE:
            there = torch.from_numpy(matrix.toarray())
        else:
            parts = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sparse CSR tensor support")  # that it is in beta
                there = torch.sparse_csr_tensor(*parts, torch.from_numpy(matrix.data), matrix.shape, check_invariants=True)
        return matrix, there.to(self._device)

    def mix(self, round: int, *blocks: np.ndarray | Packed, beside: int = 0) -> tuple[np.ndarray, ...]:
        return self._exchange(round, ("mix",), blocks, beside)

    def _exchange(
        self,
        round: int,
        kinds: tuple[str, ...],
        blocks: Sequence[np.ndarray | Packed],
        beside: int = 0,
        rule: Callable[[Messages], np.ndarray] | None = None,
    ) -> tuple[np.ndarray, ...]:
        rows = [self._there(block) for block in blocks]
        if rule is not None or not all(isinstance(block, DeviceRows) and len(block) == self.agents for block in rows):
            raise TypeError("neighbours get rows of numbers on a device, and weighted sums of them")
        plans = [self._plans.at(round, kind) for kind in kinds]
        self._count_exchange(plans[0], beside + sum(block.size // self.agents for block in rows))
        plans = plans * len(rows) if len(plans) == 1 else plans
        mixed = [DeviceRows(_times(plan.extra, block.tensor)) for plan, block in zip(plans, rows, strict=True)]
        return cast("tuple[np.ndarray, ...]", tuple(mixed))

    def _there(self, block: Any) -> Any:  # noqa: ANN401  # solvers begin with arrays of the host, such as ones
        return DeviceRows(loaded().as_tensor(block, device=self._device)) if type(block) is np.ndarray else block


def _times(matrix: Tensor, rows: Tensor) -> Tensor:
    flat = matrix @ rows.reshape(len(rows), -1)
    return flat.reshape(rows.shape)
