"""Gradients of modules on another device than the CPU: one copy there, one copy back, and the loss on the device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from consensus.frameworks.torch_calls import ModuleCalls, loaded
from consensus.frameworks.torch_derivatives import slopes
from consensus.losses import CrossEntropy, Huber, LogisticLoss, SquaredLoss

if TYPE_CHECKING:
    from torch import Tensor
    from torch import device as Device
    from torch import dtype as DType

Slope: TypeAlias = "Callable[[Tensor, Tensor], Tensor]"  # of outputs and targets (samples, ...)

_ALIGNED = 16  # bytes: where an array begins in what is sent


def there(device: str, *arrays: np.ndarray) -> list[Tensor]:
    """Return arrays as tensors on a device, by one copy of all their bytes."""
    torch = loaded()
    ends = np.cumsum([-(-array.nbytes // _ALIGNED) * _ALIGNED for array in arrays]).tolist()
    packed = torch.empty(ends[-1], dtype=torch.uint8, pin_memory=device.startswith("cuda"))
    host, spans = packed.numpy(), []
    for array, start in zip(arrays, [0, *ends], strict=False):
        spans.append(slice(start, start + array.nbytes))
        host[spans[-1]].view(array.dtype).reshape(array.shape)[...] = array
    moved = packed.to(device, non_blocking=True)
    kinds = [torch.from_numpy(np.empty(0, array.dtype)).dtype for array in arrays]
    return [moved[span].view(kind).view(array.shape) for array, span, kind in zip(arrays, spans, kinds, strict=True)]


def slope_of(loss: object) -> Slope | None:
    """Return the derivative of a loss in the outputs as a function of tensors; None of a user's own, or a subclass."""
    if type(loss) is SquaredLoss:
        return lambda f, d: f - d
    if type(loss) is Huber:
        return lambda f, d: (f - d).clamp(-loss.delta, loss.delta)
    if type(loss) is LogisticLoss:
        return lambda f, d: f.sigmoid() - d
    if type(loss) is CrossEntropy:
        return lambda f, d: _cross_entropy(loss, f, d)
    return None


def _cross_entropy(loss: CrossEntropy, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return ``(sum_k q_k) softmax(f) - q``: see :class:`consensus.CrossEntropy`."""
    labels = targets.reshape(-1, 1).long()
    slope = outputs.reshape(len(labels), -1).softmax(dim=1)
    v = _weights(loss.weight or (1.0,) * slope.shape[1], slope.dtype, slope.device)
    counted = slope.new_ones(labels.shape)
    if loss.ignore_index is not None:
        counted = (labels != loss.ignore_index).to(slope.dtype)
        labels = labels.where(labels != loss.ignore_index, 0)
    smoothing = loss.label_smoothing
    own = (1 - smoothing) * v[labels] * counted
    slope *= own + smoothing * v.mean() * counted
    if smoothing:
        slope -= smoothing / len(v) * v * counted
    return slope.scatter_add_(1, labels, -own).reshape(outputs.shape)


@functools.lru_cache(maxsize=64)
def _weights(weights: tuple[float, ...], dtype: DType, device: Device) -> Tensor:
    """Return the weights of classes, which stay on the device."""
    found: Tensor = loaded().tensor(weights, dtype=dtype, device=device)
    return found


def write_gradients(
    model: ModuleCalls, slope: Slope, w: np.ndarray, x: np.ndarray, targets: np.ndarray, weights: np.ndarray, out: np.ndarray
) -> None:
    """Write the gradients of agents that share a call on the model's device into ``out``; the only wait is for the result."""
    torch = loaded()
    rows, inputs, d, c = there(model.device, w, x, targets, weights)
    leaves: Sequence[Tensor]
    if len(w) == 1:
        module, leaves = model._own(rows.dtype)
        with torch.no_grad():
            for parameter, (_, start, end, shape) in zip(leaves, model._spans, strict=True):
                parameter.copy_(rows[0, start:end].view(shape))
        outputs = model._whole(module(model._halved(inputs[0])), rows.dtype)
    else:
        leaves = [rows[:, start:end].reshape(len(w), *shape).requires_grad_() for _, start, end, shape in model._spans]
        outputs = model._outputs(list(leaves), inputs)
    u = slope(outputs.detach().reshape(*c.shape, -1), d) * c[..., None]
    found = slopes([outputs], [u.reshape(outputs.shape)], leaves)
    parts = [part.reshape(len(w), -1).to(rows.dtype) for part in found]
    out[...] = torch.cat(parts, dim=1).cpu().numpy()
