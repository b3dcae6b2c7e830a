"""Problems whose samples are on a device, and their gradients there."""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from consensus.device.linearization import DeviceLinearization, DeviceModel, even_parts, fits, flat
from consensus.device.losses import DeviceLoss, forms_there
from consensus.device.newton import SYSTEMS, estimated
from consensus.device.proximal import Lower, all_proximal
from consensus.device.rows import DeviceRows
from consensus.frameworks.torch import Torch
from consensus.frameworks.torch_calls import loaded
from consensus.frameworks.torch_device import forms_of
from consensus.local.exact import each_proximal
from consensus.local.systems import estimates, factored, forms_jacobian
from consensus.models import MLP, Linear
from consensus.models.linearization import fitting
from consensus.observe.gather import Whole
from consensus.problems.batch import Batch, checked
from consensus.problems.samples import by_agent, has_buffers, of_batches, trains_apart

if TYPE_CHECKING:
    from torch import Tensor

Forward = Callable[
    ["list[Tensor]", "Tensor"], "Tensor"
]  # of the model's arrays (agents, ...) and samples (agents, samples, ...)


Sums = tuple[DeviceRows, ...]  # gradients, and maybe the sums themselves
Rows = DeviceRows | np.ndarray


class OnDevice(ABC):
    """A problem whose gradients are computed on a device; all else is the problem's."""

    trusted = False  # whether no function of the user's computes its values

    def __init__(self, problem: Any, device: str) -> None:  # noqa: ANN401  # what a user solves
        self._problem, self.device = problem, device

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._problem, name)

    def apart(self) -> Self:
        """Return the same problem, with a count of work of its own."""
        other = copy.copy(self)
        other._problem = self._problem.restrict(slice(0, self._problem.agents))
        return other

    @abstractmethod
    def gradient(self, w: DeviceRows, batch: Batch | None = None) -> DeviceRows:
        """Return the gradients grad g_i(w_i): see :meth:`consensus.Problem.gradient`."""

    @abstractmethod
    def value_and_gradient(self, w: DeviceRows) -> tuple[DeviceRows, DeviceRows]:
        """Return the costs g_i(w_i) and their gradients: see :meth:`consensus.Problem.value_and_gradient`."""

    @abstractmethod
    def value(self, w: DeviceRows) -> DeviceRows:
        """Return the costs g_i(w_i): see :meth:`consensus.Problem.value`."""

    def average_gradient(self, w: DeviceRows, batch: Batch | None = None) -> DeviceRows:
        """Return the gradients of the average form: see :meth:`consensus.Problem.average_gradient`."""
        return cast(DeviceRows, self._problem._averaged(self.gradient(w, batch), w))

    def descended(self, x: DeviceRows, alpha: float, w: DeviceRows, batch: Batch | None = None) -> DeviceRows:
        """Return ``x - alpha average_gradient(w, batch)``."""
        return cast(DeviceRows, x - float(alpha) * self.average_gradient(w, batch))


class DeviceFunctions(OnDevice):
    """A problem of the user's functions, which get arrays of a device that functions of NumPy take."""

    def gradient(self, w: DeviceRows, batch: Batch | None = None) -> DeviceRows:
        if batch is not None:
            self._problem._batch_gradient(w, batch)  # it says that there are no samples
        self._problem.work.gradients += 1
        return cast(DeviceRows, self._problem._add_share(self._called("gradient", w, w.shape), w))

    def value(self, w: DeviceRows) -> DeviceRows:
        """Return the costs g_i(w_i): see :meth:`consensus.Problem.value`."""
        return cast(DeviceRows, self._problem._with_share(self._called("value", w, w.shape[:1]), w))

    def value_and_gradient(self, w: DeviceRows) -> tuple[DeviceRows, DeviceRows]:
        return self.value(w), self.gradient(w)

    def _called(self, name: str, w: DeviceRows, shape: tuple[int, ...]) -> DeviceRows:
        function, by_rows = self._problem._functions[name]
        try:
            found = function(w.copy(), **({"rows": self._problem.rows.copy()} if by_rows else {}))
        except TypeError as error:
            raise TypeError(f"{name} of Problem.from_functions: {error}") from error
        if not isinstance(found, DeviceRows):
            raise TypeError(
                f"{name} of Problem.from_functions returned {type(found).__name__}, no array that it computed from w"
            )
        if found.shape != shape:
            raise ValueError(f"{name} must return shape {shape} for w of shape {w.shape}; got {found.shape}")
        return found.copy()  # callers work in place


class DeviceProblem(OnDevice):
    """A :class:`consensus.Problem` whose gradients are computed on a device, all agents at once; all else is the problem's.

    Parameters
    ----------
    problem : Problem
        With a model that is ``Linear``, ``MLP`` or ``models.Torch``.
    device : str
        The device.

    Raises
    ------
    TypeError
        If there are no samples in arrays, or the model has no form on a device.
    ValueError
        If the model computes on another device.
    """

    systems = SYSTEMS  # of local problems

    def __init__(self, problem: Any, device: str) -> None:  # noqa: ANN401  # what a user solves
        super().__init__(problem, device)
        torch, model = loaded(), getattr(problem, "model", None)
        shards: Any = getattr(problem, "shards", None)
        if model is None or type(getattr(shards, "features", None)) is not np.ndarray:
            raise TypeError(
                f"Device takes problems of functions, or with a model and samples in arrays; got {problem}: engine='stacked' "
                "takes it"
            )
        forms, self.trusted = forms_there(problem.loss, device), forms_of(problem.loss) is not None
        self._forms, self._forward = forms, forward_of(model, device, shards)
        self._spans = [(part.start, part.start + int(np.prod(part.shape)), part.shape) for part in model.layout]
        self._features, self._targets, self._weights = (
            torch.from_numpy(np.ascontiguousarray(array)).to(device)
            for array in (shards.features, shards.targets, problem.weights)
        )
        self._agents = torch.arange(problem.agents, device=device)[:, None]
        # What solvers find there that ask for curvature.
        self.weights, self.loss, self.model = DeviceRows(self._weights), DeviceLoss(problem.loss, forms), DeviceModel(self)
        self.shards = _Instead(shards, features=DeviceRows(self._features), targets=DeviceRows(self._targets))
        kept = getattr(model, "_kept", 2 * sum(model.widths[1:]))  # numbers of a sample
        self._largest = [fitting(problem.agents * kept, problem.dtype, device)]  # or the run's batches; copies share it

    def gradient(self, w: DeviceRows, batch: Batch | None = None) -> DeviceRows:
        """Return the gradients grad g_i(w_i): see :meth:`consensus.Problem.gradient`."""
        (gradient,) = self._sums(w, batch, values=False)
        return cast(DeviceRows, self._problem._add_share(gradient, w))

    def value_and_gradient(self, w: DeviceRows) -> tuple[DeviceRows, DeviceRows]:
        """Return the costs g_i(w_i) and their gradients: see :meth:`consensus.Problem.value_and_gradient`."""
        gradient, value = self._sums(w, None, values=True)
        problem = self._problem
        return cast(DeviceRows, problem._with_share(value, w)), cast(DeviceRows, problem._add_share(gradient, w))

    def value(self, w: DeviceRows) -> DeviceRows:
        """Return the costs g_i(w_i): see :meth:`consensus.Problem.value`."""
        problem, x, d, c = self._problem, self._features, self._targets, self._weights
        if of_batches(problem.loss):
            *_, own = self._in_turn(w.tensor, x, d, c, None, values=True)
            return cast(DeviceRows, problem._with_share(DeviceRows(own), w))
        found, leaves = c.new_zeros(len(c)), self._leaves(w.tensor)
        with loaded().no_grad():
            for part in self._parts(c.shape[1]):
                f = self._forward(leaves, x[:, part]).reshape(*c[:, part].shape, -1)
                found += (self._forms.value(f, d[:, part]) * c[:, part]).sum(dim=1)
        return cast(DeviceRows, problem._with_share(DeviceRows(found), w))

    def sampled(self, batch: Batch) -> DeviceProblem:
        """Return the problem of a batch's samples, which the host sends: see :meth:`consensus.Problem.sampled`."""
        return DeviceProblem(self._problem.sampled(batch), self.device)

    def linearize(self, w: DeviceRows, rows: slice) -> tuple[DeviceRows, DeviceLinearization]:
        """Return outputs and their linearization at w, for some agents: see :meth:`consensus.Problem.linearize`."""
        return self.model.linearize(w[rows], self.shards.features[rows])

    def changes(
        self, w: DeviceRows, places: np.ndarray, old: np.ndarray, weights: np.ndarray, linear: bool
    ) -> tuple[DeviceRows, DeviceRows]:
        """Return the samples' gradients, and sums of their changes, as ``changes`` of ``variance_reduced.sample_gradients``."""
        torch, (agents, count) = loaded(), places.shape
        there = torch.from_numpy(places.astype(np.int64)).to(self._weights.device)
        x, d = self._features[self._agents, there], self._targets[self._agents, there]
        if not linear:  # every sample counts as an agent of its own
            leaves = self._leaves(w.tensor.repeat_interleave(count, dim=0))
            alone = x.flatten(0, 1)[:, None], d.flatten(0, 1)[:, None], self._weights.new_ones(agents * count, 1)
            slopes = self._pass(self._forward, leaves, *alone, values=False)
            new = DeviceRows(flat(slopes, agents * count).reshape(agents, count, -1))
            return new, weights @ (new - old)
        leaves = self._leaves(w.tensor)
        outputs = self._forward(leaves, x)
        new = DeviceRows(self._forms.slope(outputs.detach().reshape(agents, count, -1), d))
        moved = weights[..., None] * (new - old)[:, None]
        u = moved.tensor.movedim(1, 0).reshape(-1, *outputs.shape)
        sums = [torch.autograd.grad(outputs, leaves, one, retain_graph=True, materialize_grads=True) for one in u]
        return new, DeviceRows(torch.stack([flat(slopes, agents) for slopes in sums], dim=1))

    def _parts(self, samples: int, several: int = 1) -> Iterator[slice]:
        """Yield samples, as many at a time as a pass takes of so many products."""
        return even_parts(samples, max(1, (self._problem.micro_batch or self._largest[0]) // several))

    def _leaves(self, rows: Tensor) -> list[Tensor]:
        return [rows[:, start:end].reshape(len(rows), *shape).requires_grad_() for start, end, shape in self._spans]

    def _sums(self, w: DeviceRows, batch: Batch | None, values: bool) -> Sums:
        """Return the gradients of sums over samples, and maybe the sums.

        A batch takes one pass. All samples take as many as are reckoned to fit, or as a batch had until now, if these are more.
        Modules that draw random numbers or normalise by their samples, and losses of a batch, take one agent after the other,
        as in one process.
        """
        problem = self._problem
        problem.work.gradients += 1
        if batch is None:
            problem.work.samples += problem._samples
        else:
            batch = checked(batch, problem.agents, self._weights.shape[1])
            problem.work.samples += int(np.count_nonzero(batch.weights))
            drawn = batch.indices.astype(np.int64), batch.weights.astype(problem.dtype)
            self._largest[0] = max(self._largest[0], drawn[0].shape[1])
        several = has_buffers(problem.model) or of_batches(problem.loss)  # samples that depend on each other
        if several or (batch is not None and trains_apart(problem.model)):
            samples = (self._features, self._targets, self._weights) if batch is None else self._drawn(*drawn)
            return self._together(w, self._in_turn(w.tensor, *samples, batch, values))
        return cast(Sums, w.called(self._of_all, values) if batch is None else w.called(self._of_batch, values, *drawn))

    def _of_all(self, w: DeviceRows, values: bool) -> Sums:
        x, d, c = self._features, self._targets, self._weights
        leaves = self._leaves(w.tensor)
        found: list[Tensor] = []
        for part in self._parts(c.shape[1]):
            more = self._pass(self._forward, leaves, x[:, part], d[:, part], c[:, part], values)
            found = [a + b for a, b in zip(found, more, strict=True)] if found else more
        return self._together(w, found)

    def _of_batch(self, w: DeviceRows, values: bool, places: Rows, weights: Rows) -> Sums:
        return self._together(w, self._pass(self._forward, self._leaves(w.tensor), *self._drawn(places, weights), values))

    def _drawn(self, places: Rows, weights: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """Return features, targets and weights of a batch."""
        there, counted = (
            part.tensor if isinstance(part, DeviceRows) else loaded().from_numpy(part).to(self.device, non_blocking=True)
            for part in (places, weights)
        )
        here = self._agents, there
        return self._features[here], self._targets[here], self._weights[here] * counted

    def _together(self, w: DeviceRows, found: list[Tensor]) -> Sums:
        """Return what a pass found as rows, and maybe its sums."""
        slopes = DeviceRows(flat(found[: len(self._spans)], len(w)))
        return (slopes, DeviceRows(found[-1])) if len(found) > len(self._spans) else (slopes,)

    def _in_turn(self, rows: Tensor, x: Tensor, d: Tensor, c: Tensor, batch: Batch | None, values: bool) -> list[Tensor]:
        """Return the same as :meth:`_pass`, of one agent after the other, by its own random numbers and its samples alone."""
        torch, problem = loaded(), self._problem
        found: list[list[Tensor]] = []

        def of_one(row: Tensor, x: Tensor, d: Tensor, c: np.ndarray, _: Tensor, model: Torch) -> None:
            own, weights = self._leaves(row), torch.from_numpy(c).to(x.device)
            if type(model) is not Torch:
                found.append(self._pass(self._forward, own, x, d, weights, values))
                return
            function = model._function(row.dtype)

            def forward(leaves: list[Tensor], x: Tensor) -> Tensor:
                return function([leaf[0] for leaf in leaves], x[0])

            with model._context(problem.dtype):
                found.append(self._pass(forward, own, x, d, weights, values))

        by_agent(of_one, problem.model, problem.loss, batch)(rows, x, d, c.cpu().numpy(), rows, problem.rows)
        return [torch.cat(of_agents) for of_agents in zip(*found, strict=True)]

    def _pass(self, forward: Forward, leaves: list[Tensor], x: Tensor, d: Tensor, c: Tensor, values: bool) -> list[Tensor]:
        """Return the slopes of one pass in the leaves, and its sums of losses (agents,), if they are asked for."""
        outputs = forward(leaves, x)
        f = outputs.detach().reshape(*c.shape, -1)
        u = self._forms.slope(f, d) * c[..., None]
        slopes = loaded().autograd.grad(outputs, leaves, u.reshape(outputs.shape), materialize_grads=True)
        return [*slopes, (self._forms.value(f, d) * c).sum(dim=1)] if values else list(slopes)


estimates.register(DeviceProblem, estimated)
forms_jacobian.register(DeviceProblem, fits)
each_proximal.register(DeviceRows, all_proximal)
factored.register(DeviceRows, cast(Any, Lower.of))


class _Instead:
    """An object with some other attributes."""

    def __init__(self, of: object, **instead: object) -> None:
        self._of = of
        self.__dict__ |= instead

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._of, name)


def forward_of(model: object, device: str, shards: Any) -> Forward:  # noqa: ANN401
    """Return a model as a function of tensors, for all agents at once; raise an error if it has none on this device."""
    if type(model) in (Linear, MLP):
        return functools.partial(_layered, getattr(model, "bias", True), getattr(model, "activation", "tanh"))
    if type(model) is Torch:
        if model.device != device:
            raise ValueError(f"the model must be on the device of the engine, {device!r}: give models.Torch(device={device!r})")
        module = model.for_samples(shards.features.shape[2:], shards.features.dtype)
        return lambda leaves, x: loaded().func.vmap(module._function(leaves[0].dtype))(leaves, x)
    raise TypeError(f"Device takes Linear, MLP and models.Torch; got {model}: engine='stacked' takes it")


def _layered(bias: bool, activation: str, leaves: list[Tensor], x: Tensor) -> Tensor:
    torch, step = loaded(), 2 if bias else 1
    for place in range(0, len(leaves), step):
        x = torch.baddbmm(leaves[place + 1][:, None], x, leaves[place]) if bias else torch.bmm(x, leaves[place])
        if place + step < len(leaves):
            x = _ACTIVATIONS[activation](torch, x)
    return x


_ACTIVATIONS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "tanh": lambda torch, x: x.tanh(),
    "relu": lambda torch, x: x.relu(),
    "sigmoid": lambda torch, x: x.sigmoid(),
    "softplus": lambda torch, x: -torch.nn.functional.logsigmoid(-x),  # PyTorch's own is a line from 20 on
    "quadratic": lambda torch, x: x.square(),
}


class Observed:
    """The problem as an observer measures it: points of the host, whose costs and gradients are computed on the device."""

    def __init__(self, there: OnDevice) -> None:
        self._there = there.apart()  # what is measured is no work of the run

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._there._problem, name)

    def true_gradients(self) -> Observed:
        return self

    def value_and_gradient(self, w: np.ndarray) -> tuple[np.ndarray, DeviceRows]:
        """Return the costs g_i(w_i), and their gradients, of which sums are taken there: see :class:`There`."""
        torch, same = loaded(), w.strides[0] == 0  # one point of all agents
        point = torch.from_numpy(w[:1].copy() if same else np.ascontiguousarray(w)).to(self._there.device)
        value, gradient = self._there.value_and_gradient(DeviceRows(point.expand(w.shape)))
        return value.host(), gradient


class There(Whole):
    """Sums over agents whose rows are on a device; the host gets what the sums are, and rows when it asks for them."""

    def rows(self, block: Rows) -> np.ndarray:
        return block.host() if isinstance(block, DeviceRows) else block

    def parts(self, block: Rows) -> Iterator[np.ndarray]:
        yield from (self.rows(block[agent : agent + 1]) for agent in range(len(block)))

    def chain(self, step: Callable[[np.ndarray], Rows], value: Rows) -> np.ndarray:
        return self.rows(step(cast(np.ndarray, value)))

    def decide(self, function: Callable[[Callable[[], np.ndarray]], Any], block: Rows) -> Any:  # noqa: ANN401
        return function(lambda: self.rows(block))
