"""A model on a device as solvers take it that ask for curvature: outputs, and products with its Jacobian."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from consensus.device.rows import DeviceRows
from consensus.frameworks.torch_calls import loaded
from consensus.local.systems import LARGEST
from consensus.models.linearization import LinearizationDefaults, parts

if TYPE_CHECKING:
    from torch import Tensor


_TOGETHER = 64  # rows or columns of Jacobians that are made together


def fits(problem: Any) -> bool:  # noqa: ANN401  # a DeviceProblem
    """Return whether local solves take J itself, where r is no sum of squares, as all agents' are not too large."""
    n = problem.shards.features.shape[1] * problem.model.outputs
    return not problem.regularizer.quadratic and problem.agents * n * problem.parameters <= LARGEST


class DeviceModel:
    """The model of a :class:`consensus.device.problem.DeviceProblem`, for points and samples of its device."""

    jacobian = gram = design = None  # of the host's model; here all is made of products

    def __init__(self, problem: Any) -> None:  # noqa: ANN401  # a DeviceProblem
        self._there, self._model = problem, problem._problem.model

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._model, name)

    def predict(self, w: DeviceRows, x: DeviceRows) -> DeviceRows:
        """Return the outputs (agents, samples, outputs), of some samples at a time."""
        torch, leaves = loaded(), self._there._leaves(w.tensor)
        with torch.no_grad():
            found = [self._there._forward(leaves, x.tensor[:, part]) for part in self._there._parts(x.shape[1])]
        return DeviceRows(torch.cat(found, dim=1).reshape(*x.shape[:2], -1))

    def linearize(self, w: DeviceRows, x: DeviceRows) -> tuple[DeviceRows, DeviceLinearization]:
        """Return the outputs and products with their Jacobian at w."""
        return self.predict(w, x), DeviceLinearization(self._there, w.tensor, x.tensor)


class DeviceLinearization(LinearizationDefaults):
    """Products with the Jacobian at w, by a tape of some samples at a time, which is not kept.

    They take one (co)tangent of each agent or several, as :class:`consensus.models.Linearization` has them.
    """

    several = True

    def __init__(self, problem: Any, w: Tensor, x: Tensor) -> None:  # noqa: ANN401
        self._problem, self._w, self._x = problem, w, x
        self.shape = tuple(w.shape)

    def vjp(self, u: DeviceRows, out: DeviceRows | None = None) -> DeviceRows:  # type: ignore[override]
        """Return J' u, (agents, P) or (agents, count, P)."""
        torch, each = loaded(), u.tensor if u.ndim == 4 else u.tensor[:, None]
        total = self._w.new_zeros(*each.shape[:2], self._w.shape[1])
        for part, leaves, outputs in self._tapes(each.shape[1]):
            for number, one in enumerate(each[:, :, part].unbind(1)):
                slopes = torch.autograd.grad(
                    outputs, leaves, one.reshape(outputs.shape), retain_graph=True, materialize_grads=True
                )
                total[:, number] += flat(slopes, len(total))
        found = DeviceRows(total if u.ndim == 4 else total[:, 0])
        if out is not None:
            out[...] = found
        return found

    def jvp(self, v: DeviceRows) -> DeviceRows:  # type: ignore[override]
        """Return J v, (agents, samples, outputs) or (agents, count, samples, outputs): J' u is linear in u, of slope J."""
        torch, each = loaded(), v.tensor if v.ndim == 3 else v.tensor[:, None]
        found = []
        for _, leaves, outputs in self._tapes(each.shape[1]):
            u = torch.zeros_like(outputs, requires_grad=True)
            products = flat(torch.autograd.grad(outputs, leaves, u, create_graph=True, materialize_grads=True), len(self._w))
            moved = [torch.autograd.grad(products, u, one, retain_graph=True)[0] for one in each.unbind(1)]
            found.append(torch.stack([one.reshape(*outputs.shape[:2], -1) for one in moved], dim=1))
        whole = torch.cat(found, dim=2)
        return DeviceRows(whole if v.ndim == 3 else whole[:, 0])

    @property
    def jacobian(self) -> Any:  # noqa: ANN401  # as Linearization has it
        """The function that makes J, if all agents' are not too large: see :func:`fits`."""
        return self._formed if fits(self._problem) else None

    def _formed(self, columns: None = None) -> DeviceRows:
        """Return J (agents, samples * outputs, P), by its rows or its columns, whichever are fewer."""
        torch, (agents, parameters) = loaded(), self.shape
        shape = self._x.shape[1], self._problem.model.outputs

        def identity(order: int) -> Iterator[Tensor]:
            yield from torch.eye(order, dtype=self._w.dtype, device=self._w.device).split(_TOGETHER)

        if parameters <= math.prod(shape):
            moved = [self.jvp(DeviceRows(part.expand(agents, -1, -1))).tensor for part in identity(parameters)]
            return DeviceRows(torch.cat(moved, dim=1).flatten(2).mT.contiguous())
        each = (DeviceRows(part.unflatten(1, shape).expand(agents, -1, -1, -1)) for part in identity(math.prod(shape)))
        return DeviceRows(torch.cat([self.vjp(u).tensor for u in each], dim=1))

    def _tapes(self, count: int) -> Iterator[tuple[slice, list[Tensor], Tensor]]:
        """Yield some samples at a time, the parameters, and their outputs."""
        for part in self._problem._parts(self._x.shape[1], count):
            leaves = self._problem._leaves(self._w)
            yield part, leaves, self._problem._forward(leaves, self._x[:, part])


def even_parts(samples: int, most: int) -> Iterator[slice]:
    """Yield slices of at most so many samples, all of one size but the last."""
    return parts(samples, -(-samples // -(-samples // most)))


def flat(arrays: Sequence[Tensor], agents: int) -> Tensor:
    """Return arrays (agents, ...) as rows (agents, P)."""
    rows: Tensor = loaded().cat([array.reshape(agents, -1) for array in arrays], dim=1)
    return rows
