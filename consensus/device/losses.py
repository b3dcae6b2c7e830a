"""Losses on a device."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from consensus.device.rows import DeviceRows
from consensus.frameworks.torch_calls import loaded
from consensus.frameworks.torch_device import Form, Forms, forms_of
from consensus.frameworks.torch_loss import TorchLoss
from consensus.owners.cox import CoxLoss

if TYPE_CHECKING:
    from torch import Tensor


class DeviceLoss:
    """A loss of arrays of a device; all else is the loss's own."""

    def __init__(self, loss: Any, forms: Forms) -> None:  # noqa: ANN401  # any loss
        self._loss, self._forms = loss, forms

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._loss, name)

    def value(self, outputs: DeviceRows, targets: DeviceRows) -> DeviceRows:
        """Return the loss of each sample (agents, samples)."""
        return DeviceRows(self._forms.value(outputs.tensor, targets.tensor))

    def gradient(self, outputs: DeviceRows, targets: DeviceRows) -> DeviceRows:
        """Return the slopes (agents, samples, outputs)."""
        return DeviceRows(self._forms.slope(outputs.tensor, targets.tensor))

    def curvature_root(self, outputs: DeviceRows, targets: DeviceRows) -> DeviceRows:
        """Return roots of the curvature: see ``Loss.curvature_root``."""
        return DeviceRows(self._forms.root(outputs.tensor, targets.tensor))


def forms_there(loss: Any, device: str) -> Forms:  # noqa: ANN401  # any loss
    """Return a loss as functions of tensors: in PyTorch, by NumPy's protocols, or for ``CoxLoss`` by the host."""
    if forms := forms_of(loss):
        return forms
    if type(loss) is TorchLoss:
        return _of_torch(loss, device)
    if type(loss) is CoxLoss:  # of sorted times and risk sets: outputs go to the host, and slopes come back
        return Forms(*(_on_host(way) for way in (loss.value, loss.gradient, loss.curvature_root)))
    return Forms(*(_of_numpy(loss, name) for name in ("value", "gradient", "curvature_root")))


def _of_torch(loss: TorchLoss, device: str) -> Forms:
    loss = copy.copy(loss)
    if isinstance(loss.function, loaded().nn.Module):
        object.__setattr__(loss, "function", copy.deepcopy(loss.function).to(device))
    each = loss.over == "samples"

    def samples(f: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:  # of all agents; of a batch's loss, one agent's
        f, d = f.detach().reshape(-1, f.shape[-1]), d.reshape(-1, d.shape[-1])
        if not loss.labels:
            return f, d.to(f.dtype)
        return f, d.long()[:, 0] if d.shape[1] == 1 else d.long()

    def value(f: Tensor, d: Tensor) -> Tensor:
        one, other = samples(f, d)
        found = loss._called(one, other) if each else loss._number(one, other).expand(len(one)) / loss._shares(one)
        found = found if found.ndim else loss._one_by_one(one, other)
        return found.reshape(len(one), -1).sum(1).reshape(f.shape[:-1])

    def slope(f: Tensor, d: Tensor) -> Tensor:
        one, other = samples(f, d)
        found = loss._slopes(one, other)
        return (found if each else found * (len(one) / loss._shares(one))).reshape(f.shape)

    return Forms(value, slope, _of_numpy(loss, "curvature_root"))


def _on_host(way: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Form:
    return lambda f, d: loaded().from_numpy(way(f.cpu().numpy(), d.cpu().numpy())).to(f.device)


def _of_numpy(loss: Any, name: str) -> Form:  # noqa: ANN401
    who = f"{type(loss).__name__}.{name}"

    def form(f: Tensor, d: Tensor) -> Tensor:
        try:
            found = getattr(loss, name)(DeviceRows(f), DeviceRows(d))
        except TypeError as error:
            raise TypeError(f"{who}: {error}; {_IN_TORCH}") from error
        if not isinstance(found, DeviceRows):
            raise TypeError(f"{who} returned {type(found).__name__}, no array that it computed from the outputs; {_IN_TORCH}")
        return found.tensor

    return form


_IN_TORCH = "write the loss in functions of PyTorch, and give consensus.losses.TorchLoss(function)"
