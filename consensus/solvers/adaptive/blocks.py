"""Named blocks of numbers: the fields of a NamedTuple, which may nest, as the columns of one array."""

from typing import NamedTuple, TypeVar

import numpy as np

Blocks = TypeVar("Blocks", bound=tuple | np.ndarray)


class Nothing(NamedTuple):
    """No blocks."""


def pack(blocks: tuple) -> np.ndarray:
    """The fields (agents, ...) of a NamedTuple side by side, as one array (agents, columns).

    Examples
    --------
    >>> from typing import NamedTuple
    >>> import numpy as np
    >>> from consensus.solvers.adaptive.blocks import pack, unpack
    >>> class Sent(NamedTuple):
    ...     w: np.ndarray
    ...     tau: np.ndarray
    >>> sent = Sent(w=np.array([[1.0, 2.0], [4.0, 5.0]]), tau=np.array([3.0, 6.0]))
    >>> pack(sent)
    array([[1., 2., 3.],
           [4., 5., 6.]])
    >>> unpack(10 * pack(sent), sent).tau
    array([30., 60.])
    """
    return np.concatenate([block.reshape(len(block), -1) for block in _arrays(blocks)], axis=1)


def unpack(columns: np.ndarray, like: Blocks) -> Blocks:
    """Views of ``columns`` as the fields that :func:`pack` made them of: a NamedTuple with the names and shapes of ``like``."""
    parts, start = [], 0
    for block in _arrays(like):
        end = start + block[0].size
        parts.append(columns[:, start:end].reshape(len(columns), *block.shape[1:]))
        start = end
    return _named(like, iter(parts))


def rows(blocks: Blocks, agents: np.ndarray | slice) -> Blocks:
    """The rows of some ``agents``, a slice or an array of indices, of an array, or of a NamedTuple's fields."""
    if isinstance(blocks, tuple):
        return type(blocks)(*(rows(block, agents) for block in blocks))
    if blocks.strides[0] == 0 and not isinstance(agents, slice):  # one for all
        return np.broadcast_to(blocks[:1], (len(agents), *blocks.shape[1:]))  # type: ignore[return-value]
    return blocks[agents]  # type: ignore[return-value]  # here they are arrays, which the type of both does not say


def choose(chosen: np.ndarray, a: Blocks, b: Blocks) -> Blocks:
    """The rows of an array, or of a NamedTuple's fields: those of ``a`` where ``chosen`` (agents,), else those of ``b``.

    Where all are of one, it is that one itself: curvature is large.
    """
    if chosen.all() or not chosen.any():
        return a if chosen.any() else b
    if isinstance(a, tuple):
        return type(a)(*(choose(chosen, x, y) for x, y in zip(a, b, strict=True)))
    chosen = chosen.reshape(-1, *(1,) * (a.ndim - 1))
    return np.where(chosen, a, b)  # type: ignore[return-value]  # here they are arrays, which the type of both does not say


def _arrays(blocks):
    """The arrays in a NamedTuple, in order."""
    return [array for block in blocks for array in (_arrays(block) if isinstance(block, tuple) else (block,))]


def _named(like, arrays):
    """A NamedTuple as ``like`` of the next ``arrays``, an iterator."""
    return type(like)(*(_named(block, arrays) if isinstance(block, tuple) else next(arrays) for block in like))
