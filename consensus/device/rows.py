"""Arrays of a device that NumPy's own functions and operators take: methods written for NumPy run on them as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from consensus.frameworks.torch_calls import loaded

if TYPE_CHECKING:
    from torch import Tensor

Values: TypeAlias = Any  # what NumPy and solvers may give: numbers, arrays of the host and of the device, places, shapes
_UFUNCS = {  # NumPy's names of what PyTorch calls otherwise
    "absolute": "abs", "conjugate": "conj", "power": "pow", "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le",
    "greater": "gt", "greater_equal": "ge", "invert": "bitwise_not", "expit": "sigmoid",
    "fabs": "abs", "floor_divide": "floor_divide",
}  # fmt: skip


class DeviceRows(NDArrayOperatorsMixin):
    """An array on a device, (agents, ...): a tensor behind NumPy's protocols for arrays of others (NEP 13 and NEP 18).

    What NumPy has and this does not raises a ``TypeError`` by name, in place of a silent copy to the host.

    Parameters
    ----------
    tensor : torch.Tensor
        The numbers.
    """

    __slots__ = ("tensor",)
    on_device = True

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    # What solvers ask of an array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        return int(self.tensor.ndim)

    @property
    def size(self) -> int:
        return int(self.tensor.numel())

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(str(self.tensor.dtype).removeprefix("torch."))

    @property
    def nbytes(self) -> int:
        return 0  # none of the host's: helpers that cut large arrays for its caches leave these alone

    @property
    def T(self) -> DeviceRows:
        return DeviceRows(self.tensor.mT if self.ndim == 2 else self.tensor.permute(*range(self.ndim)[::-1]))

    def __len__(self) -> int:
        return len(self.tensor)

    def __repr__(self) -> str:
        return f"DeviceRows({self.shape}, {self.dtype}, {self.tensor.device})"

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __float__(self) -> float:
        return float(self.tensor)

    def __int__(self) -> int:
        return int(self.tensor)

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise TypeError("it would copy numbers of the device to the host, which is never done in silence")

    def __getitem__(self, key: Values) -> DeviceRows:
        return DeviceRows(self.tensor[_indices(key, self.tensor)])

    def __setitem__(self, key: Values, value: Values) -> None:
        self.tensor[_indices(key, self.tensor)] = _tensor(value, self.tensor)

    def host(self) -> np.ndarray:
        """Return a copy on the host."""
        found: np.ndarray = self.tensor.detach().cpu().numpy()
        return found.copy() if self.tensor.device.type == "cpu" else found

    def copy(self) -> DeviceRows:
        return DeviceRows(self.tensor.clone())

    def tolist(self) -> list[Any]:
        found: list[Any] = self.tensor.tolist()
        return found

    def astype(self, dtype: Values, copy: bool = True) -> DeviceRows:
        kind = getattr(loaded(), np.dtype(dtype).name)
        return DeviceRows(self.tensor.to(kind, copy=copy))

    def reshape(self, *shape: Values) -> DeviceRows:
        return DeviceRows(self.tensor.reshape(*shape))

    def ravel(self) -> DeviceRows:
        return DeviceRows(self.tensor.reshape(-1))

    def swapaxes(self, one: int, other: int) -> DeviceRows:
        return DeviceRows(self.tensor.transpose(one, other))

    def sum(self, axis: Values = None, keepdims: bool = False, dtype: Values = None) -> DeviceRows:
        return _reduced("sum", self.tensor, axis, keepdims)

    def mean(self, axis: Values = None, keepdims: bool = False) -> DeviceRows:
        return _reduced("mean", self.tensor, axis, keepdims)

    def max(self, axis: Values = None, keepdims: bool = False) -> DeviceRows:
        return _reduced("amax", self.tensor, axis, keepdims)

    def min(self, axis: Values = None, keepdims: bool = False) -> DeviceRows:
        return _reduced("amin", self.tensor, axis, keepdims)

    def any(self, axis: Values = None, keepdims: bool = False) -> DeviceRows:
        return _reduced("any", self.tensor, axis, keepdims)

    def all(self, axis: Values = None, keepdims: bool = False) -> DeviceRows:
        return _reduced("all", self.tensor, axis, keepdims)

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Values, out: Values = (), **options: Values) -> Values:
        if method == "reduce" and ufunc.__name__ in ("add", "maximum", "minimum", "logical_or", "logical_and"):
            name = {"add": "sum", "maximum": "amax", "minimum": "amin", "logical_or": "any", "logical_and": "all"}[
                ufunc.__name__
            ]
            return _reduced(name, inputs[0].tensor, options.get("axis", 0), options.get("keepdims", False))
        options = {name: value for name, value in options.items() if name != "dtype"}
        function = getattr(loaded(), _UFUNCS.get(ufunc.__name__, ufunc.__name__), None)
        if method == "reduceat" and ufunc is np.add:
            return _segments(inputs[0].tensor, inputs[1], options["axis"])
        if ufunc.__name__ == "vecdot":
            return DeviceRows((inputs[0].tensor * _tensor(inputs[1], inputs[0].tensor)).sum(-1))
        if ufunc is np.ldexp:
            function = times_power_of_two
        if method != "__call__" or function is None or options:
            raise TypeError(f"{ufunc.__name__}{'' if method == '__call__' else f'.{method}'} has no form on a device")
        like = next(part.tensor for part in inputs if isinstance(part, DeviceRows))
        found = function(*_alike(inputs, like))
        if out and not isinstance(out[0], DeviceRows):
            raise TypeError("an array of the host gets no numbers of a device in silence")
        if out:
            out[0].tensor.copy_(found)
            return out[0]
        return DeviceRows(found)

    def __array_function__(self, function: Callable[..., Any], types: object, args: Values, kwargs: Values) -> Values:
        if function in _MADE:  # like=self: NEP 35
            return DeviceRows(loaded().from_numpy(function(*args, **kwargs)).to(self.tensor.device))
        own = _FUNCTIONS.get(function.__name__)
        if own is None:
            raise TypeError(f"numpy.{function.__name__} has no form on a device")
        return own(*args, **kwargs)


def _tensor(value: Values, like: Tensor) -> Values:
    """Return numbers, and arrays of the host, which are small, as PyTorch takes them beside ``like``."""
    if isinstance(value, DeviceRows):
        return value.tensor
    if isinstance(value, np.ndarray | np.generic):
        kind = like.dtype if value.dtype.kind == "f" and like.is_floating_point() else None
        return loaded().tensor(value, dtype=kind, device=like.device) if value.ndim else value.item()
    return value


def _alike(inputs: Sequence[Any], like: Tensor) -> list[Any]:
    """Return the arguments of a function as tensors, or numbers beside a first one that is a tensor."""
    found = [_tensor(part, like) for part in inputs]
    if len(found) > 1 and not isinstance(found[0], loaded().Tensor):
        found[0] = loaded().tensor(found[0], dtype=like.dtype, device=like.device)
    if len(found) > 1 and not isinstance(found[1], loaded().Tensor):
        found[1] = loaded().tensor(found[1], dtype=like.dtype if isinstance(found[1], float) else None, device=like.device)
    return found


def _indices(key: Values, like: Tensor) -> Values:
    if isinstance(key, tuple):
        return tuple(_indices(part, like) for part in key)
    if isinstance(key, DeviceRows):
        return key.tensor
    return loaded().as_tensor(key, device=like.device) if isinstance(key, np.ndarray) else key


def _reduced(name: str, tensor: Tensor, axis: Values, keepdims: bool) -> DeviceRows:
    function = getattr(loaded(), name)
    if axis is None:
        found = function(tensor)
        return DeviceRows(found.reshape((1,) * tensor.ndim) if keepdims else found)
    return DeviceRows(function(tensor, dim=axis, keepdim=keepdims))


def _segments(tensor: Tensor, starts: np.ndarray, axis: int) -> DeviceRows:
    """Return the sums of segments that are not empty, each from its start to the next one."""
    sizes, shape = np.diff(starts, append=tensor.shape[axis]), list(tensor.shape)
    if (starts[:1] != 0).any() or not (sizes > 0).all():
        raise TypeError("add.reduceat has no form on a device for segments that are empty, or that begin after the first entry")
    shape[axis] = len(sizes)
    labels = loaded().from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(tensor.device)
    return DeviceRows(tensor.new_zeros(shape).index_add_(axis, labels, tensor))


def _first(parts: Values) -> Tensor:
    return next(part.tensor for part in parts if isinstance(part, DeviceRows))


def _joined(name: str) -> Callable[..., DeviceRows]:
    def join(parts: Values, axis: int = 0, **_: Values) -> DeviceRows:
        like = _first(parts)
        return DeviceRows(getattr(loaded(), name)([_tensor(part, like) for part in parts], dim=axis))

    return join


def _where(condition: Values, *values: Values) -> DeviceRows:
    like = _first((condition, *values))
    found = [_tensor(value, like) for value in values]
    if all(isinstance(value, float) for value in found):  # PyTorch's own have seven digits
        found[0] = loaded().tensor(found[0], dtype=loaded().float64, device=like.device)
    return DeviceRows(loaded().where(_tensor(condition, like), *found))


def _select(conditions: Values, choices: Values, default: Values = 0) -> DeviceRows:
    for condition, choice in zip(conditions[::-1], choices[::-1], strict=True):
        default = _where(condition, choice, default)
    return cast(DeviceRows, default)


def times_power_of_two(x: Tensor, exponents: Tensor) -> Tensor:
    """Return ``x * 2**exponents`` without rounding, for exponents of normal numbers: PyTorch's own has those of single ones."""
    powers = (exponents.long().clamp(-1022, 1023) + 1023) << 52
    return x * powers.view(loaded().float64).to(x.dtype)


def _clip(a: DeviceRows, a_min: Values = None, a_max: Values = None, **_: Values) -> DeviceRows:
    low, high = (_tensor(value, a.tensor) for value in (a_min, a_max))
    if isinstance(low, loaded().Tensor) is not isinstance(high, loaded().Tensor):  # PyTorch takes two of a kind
        low, high = (loaded().as_tensor(value, dtype=a.tensor.dtype, device=a.tensor.device) for value in (low, high))
    return DeviceRows(loaded().clamp(a.tensor, low, high))


def _norm(x: DeviceRows, ord: object = None, axis: Values = None, keepdims: bool = False) -> DeviceRows:
    return DeviceRows(loaded().linalg.vector_norm(x.tensor, dim=axis, keepdim=keepdims))


def _einsum(subscripts: str, *operands: Values, **_: Values) -> DeviceRows:
    like = _first(operands)
    return DeviceRows(loaded().einsum(subscripts, *(_tensor(part, like) for part in operands)))


def _full(name: str) -> Callable[..., DeviceRows]:
    def make(a: DeviceRows, *values: Values, dtype: Values = None, shape: Values = None, **_: Values) -> DeviceRows:
        kind = a.tensor.dtype if dtype is None else getattr(loaded(), np.dtype(dtype).name)
        return DeviceRows(getattr(a.tensor, name)(a.shape if shape is None else shape, *values, dtype=kind))

    return make


_MADE = (np.zeros, np.ones, np.empty, np.full, np.asarray)
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "zeros_like": _full("new_zeros"),
    "ones_like": _full("new_ones"),
    "empty_like": _full("new_empty"),
    "full_like": _full("new_full"),
    "concatenate": _joined("cat"),
    "stack": _joined("stack"),
    "where": _where,
    "clip": _clip,
    "norm": _norm,
    "einsum": _einsum,
    "sum": lambda a, axis=None, keepdims=False, **_: a.sum(axis, keepdims),
    "mean": lambda a, axis=None, keepdims=False, **_: a.mean(axis, keepdims),
    "max": lambda a, axis=None, keepdims=False, **_: a.max(axis, keepdims),
    "amax": lambda a, axis=None, keepdims=False, **_: a.max(axis, keepdims),
    "any": lambda a, axis=None, keepdims=False, **_: a.any(axis, keepdims),
    "all": lambda a, axis=None, keepdims=False, **_: a.all(axis, keepdims),
    "take_along_axis": lambda a, places, axis: DeviceRows(
        loaded().take_along_dim(a.tensor, _indices(places, a.tensor), dim=axis)
    ),
    "take": lambda a, places, axis: DeviceRows(a.tensor.index_select(axis, _indices(places, a.tensor))),
    "repeat": lambda a, counts, axis: DeviceRows(a.tensor.repeat_interleave(_indices(counts, a.tensor), dim=axis)),
    "broadcast_to": lambda a, shape: DeviceRows(a.tensor.expand(*shape)),
    "argwhere": lambda a: DeviceRows(a.tensor.nonzero()),
    "count_nonzero": lambda a: DeviceRows(a.tensor.count_nonzero()),
    "qr": lambda a, mode="reduced": tuple(map(DeviceRows, loaded().linalg.qr(a.tensor, mode=mode))),
    "eigh": lambda a: tuple(map(DeviceRows, loaded().linalg.eigh(a.tensor))),
    "solve": lambda a, b: DeviceRows(loaded().linalg.solve_ex(a.tensor, b.tensor)[0]),  # which waits for nothing
    "nan_to_num": lambda a: DeviceRows(a.tensor.nan_to_num()),
    "select": _select,
    "copy": lambda a, **_: a.copy(),
    "reshape": lambda a, shape, **_: a.reshape(shape),
    "ravel": lambda a, **_: a.ravel(),
    "swapaxes": lambda a, one, other: a.swapaxes(one, other),
    "split": lambda a, parts, axis=0: [DeviceRows(part) for part in loaded().tensor_split(a.tensor, parts, dim=axis)],
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "result_type": lambda *parts: np.result_type(*(part.dtype if isinstance(part, DeviceRows) else part for part in parts)),
}
