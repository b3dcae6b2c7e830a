"""Tensors at the beginning of a line of cache: how products of matrices are rounded depends on where these begin in memory."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

LINE = 64  # bytes; PyTorch's own memory begins at a multiple of it


def aligned(tensor: Tensor) -> Tensor:
    """Return ``tensor``, or a copy if it begins elsewhere."""
    return tensor if tensor.data_ptr() % LINE == 0 else tensor.clone()


def aligned_rows(rows: Tensor) -> Tensor:
    """Return a copy of ``rows`` (agents, numbers) in which each of them is aligned."""
    agents, numbers = rows.shape
    wide = rows.new_empty((agents, whole(numbers, rows.element_size())))[:, :numbers]
    wide[...] = rows
    return wide


def with_samples(stack: Tensor, count: int) -> Tensor:
    """Return a copy of ``stack`` (agents, samples, ...) with samples of zeros added up to ``count``."""
    agents, samples, *shape = stack.shape
    longer = stack.new_empty((agents, count, *shape))
    longer[:, :samples], longer[:, samples:] = stack, 0
    return longer


def whole(numbers: int, size: int) -> int:
    """Return ``numbers``, of ``size`` bytes each, rounded up to whole lines."""
    each = LINE // size
    return -(-numbers // each) * each


def align_products(torch: ModuleType, module: nn.Module) -> None:
    """Let the ``Linear`` layers of ``module`` work with inputs of whole lines, so that gradients are aligned, too."""
    for part in module.modules():
        if type(part) is torch.nn.Linear and whole(part.in_features, part.weight.element_size()) > part.in_features:
            part.forward = functools.partial(_linear, torch.nn.functional, part)


def _linear(functional: ModuleType, part: nn.Linear, x: Tensor) -> Tensor:
    missing = 0, whole(part.in_features, x.element_size()) - part.in_features
    return functional.linear(functional.pad(x, missing), functional.pad(part.weight, missing), part.bias)
