"""Gradients of modules on another device than the CPU: one copy there, one copy back, and the loss on the device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from consensus.frameworks.torch_calls import ModuleCalls, loaded
from consensus.frameworks.torch_derivatives import slopes
from consensus.losses import CrossEntropy, Huber, LogisticLoss, SquaredLoss

if TYPE_CHECKING:
    from torch import Tensor
    from torch import device as Device
    from torch import dtype as DType

Form: TypeAlias = "Callable[[Tensor, Tensor], Tensor]"  # of outputs and targets

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


class Forms(NamedTuple):
    """A loss as functions of tensors, outputs (..., samples, outputs) and targets.

    Its values (..., samples); its slopes; and roots L of its curvature L L', as ``Loss.curvature_root`` returns them.
    """

    value: Form
    slope: Form
    root: Form


def forms_of(loss: object) -> Forms | None:
    """Return the forms of one of the package's losses; None of a user's own, or a subclass."""
    if type(loss) is SquaredLoss:
        return Forms(lambda f, d: (f - d).square().sum(-1) / 2, lambda f, d: f - d, lambda f, d: f.new_ones(f.shape))
    if type(loss) is Huber:
        most = loss.delta
        return Forms(
            lambda f, d: loaded().nn.functional.huber_loss(f, d.to(f.dtype), reduction="none", delta=most).sum(-1),
            lambda f, d: (f - d).clamp(-most, most),
            lambda f, d: ((f - d).abs() <= most).to(f.dtype),
        )
    if type(loss) is LogisticLoss:
        log = loaded().nn.functional.logsigmoid  # softplus is a line from 20 on
        return Forms(
            lambda f, d: (-log(-f) - d * f).sum(-1),
            lambda f, d: f.sigmoid() - d,
            lambda f, d: (f.sigmoid() * (-f).sigmoid()).sqrt(),
        )
    if type(loss) is CrossEntropy:
        ways = _cross_entropy, _cross_entropy_slope, _cross_entropy_root
        return Forms(*(functools.partial(way, loss) for way in ways))
    return None


def _shares(loss: CrossEntropy, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return logits and labels, a row each; v, what the label counts, and all classes together: see ``CrossEntropy``."""
    labels = targets.reshape(-1, 1).long()
    logits = outputs.reshape(len(labels), -1)
    v = _weights(loss.weight or (1.0,) * logits.shape[1], logits.dtype, logits.device)
    counted = logits.new_ones(labels.shape)
    if loss.ignore_index is not None:
        counted = (labels != loss.ignore_index).to(logits.dtype)
        labels = labels.where(labels != loss.ignore_index, 0)
    own = (1 - loss.label_smoothing) * v[labels] * counted
    even = loss.label_smoothing / len(v) * v * counted if loss.label_smoothing else counted[:, :0]
    return logits, labels, own, even, own + even.sum(dim=1, keepdim=True)


def _cross_entropy(loss: CrossEntropy, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return ``sum_k q_k (log sum_j exp(f_j) - f_k)``, summed over a sample's labels."""
    logits, labels, own, even, total = _shares(loss, outputs, targets)
    values = total * logits.logsumexp(dim=1, keepdim=True) - own * logits.gather(1, labels)
    if loss.label_smoothing:
        values = values - (even * logits).sum(dim=1, keepdim=True)
    return values.reshape(*outputs.shape[:-1], -1).sum(-1)


def _cross_entropy_slope(loss: CrossEntropy, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return ``(sum_k q_k) softmax(f) - q``."""
    logits, labels, own, even, total = _shares(loss, outputs, targets)
    slope = logits.softmax(dim=1) * total
    if loss.label_smoothing:
        slope -= even
    return slope.scatter_add_(1, labels, -own).reshape(outputs.shape)


def _cross_entropy_root(loss: CrossEntropy, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return ``(sum_k q_k)^(1/2) (diag(p^(1/2)) - p (p^(1/2))')``, p the probabilities; a block for each label of a sample."""
    torch = loaded()
    logits, _, _, _, total = _shares(loss, outputs, targets)
    p, count = logits.softmax(dim=1), targets.shape[-1]
    blocks = (torch.diag_embed(p.sqrt()) - p[:, :, None] * p.sqrt()[:, None]) * total.sqrt()[..., None]
    apart = torch.einsum("nikl,ij->nikjl", blocks.reshape(-1, count, *blocks.shape[1:]), torch.eye(count).to(blocks))
    return apart.reshape(*outputs.shape, outputs.shape[-1])


@functools.lru_cache(maxsize=64)
def _weights(weights: tuple[float, ...], dtype: DType, device: Device) -> Tensor:
    """Return the weights of classes, which stay on the device."""
    found: Tensor = loaded().tensor(weights, dtype=dtype, device=device)
    return found


def write_gradients(
    model: ModuleCalls, slope: Form, w: np.ndarray, x: np.ndarray, targets: np.ndarray, weights: np.ndarray, out: np.ndarray
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
