"""The network of agents whose rows are on a device."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp

from consensus.communication.flooding import Flooding
from consensus.communication.messages import Messages
from consensus.communication.packed import Packed
from consensus.compression.base import Compressor
from consensus.device.rounding import Rounded
from consensus.device.rows import DeviceRows, _indices
from consensus.engines.stacked import StackedNetwork
from consensus.frameworks.torch_calls import loaded

if TYPE_CHECKING:
    from torch import Tensor

    from consensus.communication.plans import Plan
    from topologies.schedules import ScheduleLike

_DENSE = 256  # agents up to which a full matrix takes less time than a sparse one
_UNWEIGHED = 1024  # blocks whose sizes wait on the device


class DeviceNetwork(StackedNetwork):
    """Mixes rows on a device, by a full matrix among few agents and a sparse one among many; counts as all networks do."""

    def __init__(self, schedule: ScheduleLike, dtype: np.dtype, device: str) -> None:
        self._device = device
        self._unweighed: list[tuple[Plan, Tensor]] = []
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
        plans = [self._plans.at(round, kind) for kind in kinds]
        rows: list[DeviceRows] = []
        numbers = beside
        for block, kind in zip(blocks, kinds * len(blocks) if len(kinds) == 1 else kinds, strict=True):
            if isinstance(block, DeviceRows):
                rows.append(block)
                numbers += block.size // self.agents
            elif type(block) is np.ndarray:  # solvers begin with some of the host, such as ones
                rows.append(DeviceRows(self._there(block)))
                numbers += block.size // self.agents
            elif isinstance(block, Rounded):
                rows.append(block.rows)
                self._weigh(plans[0], block)
            else:  # packed by the host: see OnHost
                sent = self._packed(plans[0], kind, block)
                rows.append(DeviceRows(self._there(self._received(plans[0], sent, cast(Packed, block)))))
        self._count_exchange(plans[0], numbers)
        plans = plans * len(rows) if len(plans) == 1 else plans
        if rule is None:
            mixed = [part.called(_times, plan.extra) for plan, part in zip(plans, rows, strict=True)]
        else:
            mixed = [_ruled(rule, plan, self.rows, part) for plan, part in zip(plans, rows, strict=True)]
        return cast("tuple[np.ndarray, ...]", tuple(mixed))

    def rounded(self, rows: Any, unit: Any) -> Any:  # noqa: ANN401  # DeviceRows, and Packed but for its bytes
        return Rounded.nearest(rows.tensor, unit.tensor)

    @property
    def counts(self) -> dict[str, int]:
        self._weigh_all()
        return super().counts

    @property
    def traffic(self) -> np.ndarray:
        self._weigh_all()
        return super().traffic

    def _weigh(self, plan: Plan, block: Rounded) -> None:
        """Count packed rows; their sizes wait on the device until someone asks for counts, or many do."""
        self._count_sent(int(plan.copies.sum()) * (block.rows.size // self.agents), 0)
        self._unweighed.append((plan, block.bytes))
        if len(self._unweighed) >= _UNWEIGHED:
            self._weigh_all()

    def _weigh_all(self) -> None:
        waiting, self._unweighed = self._unweighed, []
        if waiting:
            here = loaded().stack([sizes for _, sizes in waiting]).cpu().numpy()
            for (plan, _), sizes in zip(waiting, here, strict=True):
                ends = np.append(0, np.cumsum(sizes[plan.matrix.indices]))[plan.matrix.indptr]
                self._count_sent(0, int(plan.copies @ sizes))
                self._traffic += plan.copies * sizes + np.diff(ends) - plan.own * sizes

    def _there(self, array: np.ndarray) -> Tensor:
        found: Tensor = loaded().from_numpy(np.array(array, self.dtype)).to(self._device)
        return found

    @functools.cached_property
    def flooding(self) -> Flooding:
        return DeviceFlooding(self)


class DeviceFlooding(Flooding):
    """Minima of the agents' numbers, of which the host gets a copy: what is decided by them is decided there."""

    def all(self, yes: np.ndarray) -> bool:
        return super().all(yes.host() if isinstance(yes, DeviceRows) else yes)

    def _minimum(self, values: np.ndarray) -> float:
        return super()._minimum(values.host() if isinstance(values, DeviceRows) else values)


class DeviceMessages(Messages):
    """Messages whose rows are on a device; the host has their agents and weights."""

    def total(self, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
        terms: DeviceRows = values * weights[:, None]
        sums = terms.tensor.new_zeros((len(self.own), *terms.shape[1:]))
        return cast(np.ndarray, DeviceRows(sums.index_add_(0, _indices(self.receivers, sums), terms.tensor)))


class OnHost(Compressor):
    """A compressor of rows of a device: the host packs them, which takes a copy there and one back in every exchange."""

    def __init__(self, compressor: Compressor) -> None:
        self._compressor, self.unbiased = compressor, compressor.unbiased

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        return self._compressor.pack(rows.host() if isinstance(rows, DeviceRows) else rows, agents, number)

    def omega(self, parameters: int) -> float:
        return self._compressor.omega(parameters)


def on_device(solver: Any) -> Any:  # noqa: ANN401  # any solver, of which these are settings
    """Return a solver whose compressor packs on the host, as that of one inside."""
    changed: dict[str, Any] = {}
    if hasattr(solver, "compressor"):
        changed["compressor"] = OnHost(solver.compressor)
    if hasattr(solver, "solver") and (inner := on_device(solver.solver)) is not solver.solver:
        changed["solver"] = inner
    if not changed:
        return solver
    found = copy.copy(solver)  # with what it has found out for the problem
    for name, value in changed.items():
        object.__setattr__(found, name, value)
    return found


def _ruled(rule: Callable[[Messages], Any], plan: Plan, agents: slice, rows: Any) -> DeviceRows:  # noqa: ANN401
    return cast(DeviceRows, rule(DeviceMessages.of(plan, agents, rows, rows)).reshape(rows.shape))


def _times(rows: DeviceRows, matrix: Tensor) -> DeviceRows:
    flat = matrix @ rows.tensor.reshape(len(rows), -1)
    return DeviceRows(flat.reshape(rows.shape))
