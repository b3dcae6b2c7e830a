"""Names, places and shapes of a model's parameters."""

from typing import NamedTuple


class NamedArray(NamedTuple):
    """An array of parameters, which the parameter vector holds row by row.

    Attributes
    ----------
    name : str
        Its name, such as ``"0.weight"``.
    start : int
        Where it begins in the parameter vector.
    shape : tuple of int
        Its shape.
    outputs : {0, -1}
        The axis of a layer's outputs, if it has more than one.

    Examples
    --------
    >>> import consensus
    >>> for array in consensus.MLP([3, 5, 1]).layout:
    ...     print(array)
    NamedArray(name='0.weight', start=0, shape=(3, 5), outputs=-1)
    NamedArray(name='0.bias', start=15, shape=(5,), outputs=-1)
    NamedArray(name='1.weight', start=20, shape=(5, 1), outputs=-1)
    NamedArray(name='1.bias', start=25, shape=(1,), outputs=-1)
    """

    name: str
    start: int
    shape: tuple[int, ...]
    outputs: int
