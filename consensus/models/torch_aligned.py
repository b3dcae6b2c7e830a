"""Tensors at the beginning of a line of cache: how products of matrices are rounded depends on where these begin in memory."""

import functools

LINE = 64  # bytes; PyTorch's own memory begins at a multiple of it


def aligned(tensor):
    """``tensor``, or a copy if it begins elsewhere."""
    return tensor if tensor.data_ptr() % LINE == 0 else tensor.clone()


def aligned_rows(rows):
    """A copy of ``rows`` (agents, numbers) in which each of them is aligned."""
    agents, numbers = rows.shape
    wide = rows.new_empty((agents, whole(numbers, rows.element_size())))[:, :numbers]
    wide[...] = rows
    return wide


def with_samples(stack, count):
    """A copy of ``stack`` (agents, samples, ...) with samples of zeros added up to ``count``."""
    agents, samples, *shape = stack.shape
    longer = stack.new_empty((agents, count, *shape))
    longer[:, :samples], longer[:, samples:] = stack, 0
    return longer


def whole(numbers, size):
    """``numbers`` of so many bytes each, and as many more as fill a line."""
    each = LINE // size
    return -(-numbers // each) * each


def align_products(torch, module):
    """Let the ``Linear`` layers of ``module`` work with inputs of whole lines, so that gradients are aligned, too."""
    for part in module.modules():
        if type(part) is torch.nn.Linear:
            part.forward = functools.partial(_linear, torch.nn.functional, part)


def _linear(functional, part, x):
    missing = 0, whole(part.in_features, x.element_size()) - part.in_features
    return functional.linear(functional.pad(x, missing), functional.pad(part.weight, missing), part.bias)
