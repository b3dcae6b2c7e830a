"""Arrays of a device that NumPy's own functions and operators take: methods written for NumPy run on them as they are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
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
    def itemsize(self) -> int:
        return self.dtype.itemsize

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
        found = _tensor(value, self.tensor)
        self.tensor[_indices(key, self.tensor)] = found.to(self.tensor.dtype) if hasattr(found, "to") else found

    def host(self) -> np.ndarray:
        """Return a copy on the host."""
        found: np.ndarray = self.tensor.detach().cpu().numpy()
        return found.copy() if self.tensor.device.type == "cpu" else found

    def called(self, function: Callable[..., Any], *values: Values) -> Any:  # noqa: ANN401  # what the function returns
        """Return ``function(self, *values)``, whose arrays of the host, and tensors, may be others in each round."""
        return function(self, *values)

    def copy(self) -> DeviceRows:
        return DeviceRows(self.tensor.clone())

    def tolist(self) -> list[Any]:
        found: list[Any] = self.tensor.tolist()
        return found

    def astype(self, dtype: Values, copy: bool = True) -> DeviceRows:
        return DeviceRows(self.tensor.to(_torch(dtype), copy=copy))

    def reshape(self, *shape: Values) -> DeviceRows:
        return DeviceRows(self.tensor.reshape(*shape))

    def ravel(self) -> DeviceRows:
        return DeviceRows(self.tensor.reshape(-1))

    def swapaxes(self, one: int, other: int) -> DeviceRows:
        return DeviceRows(self.tensor.transpose(one, other))

    def sum(self, axis: Values = None, keepdims: bool = False, dtype: Values = None) -> DeviceRows:
        return _reduced("sum", self, axis, keepdims, dtype)

    def mean(self, axis: Values = None, keepdims: bool = False) -> DeviceRows:
        return _reduced("mean", self, axis, keepdims)

    def max(self, axis: Values = None, keepdims: bool = False) -> DeviceRows:
        return _reduced("amax", self, axis, keepdims)

    def min(self, axis: Values = None, keepdims: bool = False) -> DeviceRows:
        return _reduced("amin", self, axis, keepdims)

    def any(self, axis: Values = None, keepdims: bool = False) -> DeviceRows:
        return _reduced("any", self, axis, keepdims)

    def all(self, axis: Values = None, keepdims: bool = False) -> DeviceRows:
        return _reduced("all", self, axis, keepdims)

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Values, out: Values = (), **options: Values) -> Values:
        name = ufunc.__name__
        if method == "reduce" and name in _REDUCED and not out and options.keys() <= {"axis", "keepdims", "dtype"}:
            return _REDUCED[name](inputs[0], **({"axis": 0} | options))
        if method == "reduceat" and ufunc is np.add:
            return _segments(inputs[0].tensor, inputs[1], options["axis"])
        function = _OTHERWISE.get(name) or getattr(loaded(), _UFUNCS.get(name, name), None)
        if method != "__call__" or function is None or options:
            raise _formless(name if method == "__call__" else f"{name}.{method}", options)
        like = next(part.tensor for part in inputs if isinstance(part, DeviceRows))
        found = function(*_alike(ufunc, inputs, like))
        if out and not isinstance(out[0], DeviceRows):
            raise TypeError("an array of the host gets no numbers of a device in silence")
        if out:
            out[0].tensor.copy_(found)
            return out[0]
        return DeviceRows(found) if ufunc.nout == 1 else tuple(map(DeviceRows, found))

    def __array_function__(self, function: Callable[..., Any], types: object, args: Values, kwargs: Values) -> Values:
        if function is np.array and any(isinstance(part, DeviceRows) for part in args[0]):  # like=self: NEP 35
            return DeviceRows(loaded().stack([_tensor(part, self.tensor) for part in args[0]]))
        if function in _MADE:
            return DeviceRows(loaded().from_numpy(function(*args, **kwargs)).to(self.tensor.device))
        own = _FUNCTIONS.get(function.__name__)
        if own is None or kwargs.keys() - _parameters(function.__name__):
            raise _formless(f"numpy.{function.__name__}", kwargs if own else {})
        return own(*args, **kwargs)


def _formless(name: str, options: Iterable[str]) -> TypeError:
    given = ", ".join(f"{option}=" for option in options)
    return TypeError(f"{name}{given and f' with {given}'} has no form on a device")


@functools.cache
def _parameters(name: str) -> set[str]:
    return set(inspect.signature(_FUNCTIONS[name]).parameters)


def _tensor(value: Values, like: Tensor) -> Values:
    """Return numbers, and arrays of the host, which are small, as PyTorch takes them beside ``like``."""
    if isinstance(value, DeviceRows):
        return value.tensor
    if isinstance(value, np.ndarray | np.generic):
        kind = like.dtype if value.dtype.kind == "f" and like.is_floating_point() else None
        return loaded().tensor(value, dtype=kind, device=like.device) if value.ndim else value.item()
    return value


def _alike(ufunc: np.ufunc, inputs: Sequence[Any], like: Tensor) -> list[Any]:
    """Return the arguments of a function as tensors, or numbers beside a first one that is a tensor.

    Beside whole numbers and truths they get the types that NumPy gives them: PyTorch's own have seven digits.
    """
    torch, found = loaded(), [_tensor(part, like) for part in inputs]
    if _whole(found):
        kinds = ufunc.resolve_dtypes((*map(_kind, found), *(None,) * ufunc.nout))
        return [_as(part, kind, like) for part, kind in zip(found, kinds, strict=False)]
    if len(found) > 1 and not isinstance(found[0], torch.Tensor):  # made there: a copy would be waited for
        found[0] = like.new_full((), found[0])
    if len(found) > 1 and not isinstance(found[1], torch.Tensor):
        found[1] = like.new_full((), found[1], dtype=like.dtype if isinstance(found[1], float) else torch.int64)
    return found


def _whole(found: Sequence[Any]) -> bool:
    """Return whether any tensor holds whole numbers or truths, or none is one."""
    tensors = [part for part in found if isinstance(part, loaded().Tensor)]
    return not tensors or not all(part.is_floating_point() for part in tensors)


def _kind(value: Values) -> Values:
    """Return the type of an array, or of a number beside arrays, as NumPy's rules take them."""
    kind = DeviceRows(value).dtype if isinstance(value, loaded().Tensor) else type(value)
    return np.dtype(kind) if kind is bool else kind


def _as(value: Values, dtype: Values, like: Tensor) -> Tensor:
    found: Tensor = loaded().as_tensor(value, dtype=_torch(dtype), device=like.device)
    return found


def _torch(dtype: Values) -> Any:  # noqa: ANN401  # a type of PyTorch's
    return getattr(loaded(), np.dtype(dtype).name)


def _common(values: Sequence[Any], like: Tensor) -> list[Any]:
    """Return values as tensors of one type, as far as PyTorch's own rules are not NumPy's."""
    found = [_tensor(value, like) for value in values]
    if not _whole(found):
        return found
    kind = np.result_type(*(DeviceRows(part).dtype if isinstance(part, loaded().Tensor) else part for part in found))
    return [_as(part, kind, like) for part in found]


def _indices(key: Values, like: Tensor) -> Values:
    if isinstance(key, tuple):
        return tuple(_indices(part, like) for part in key)
    if isinstance(key, DeviceRows):
        return key.tensor
    if not isinstance(key, np.ndarray):
        return key
    return loaded().as_tensor(key if key.dtype == bool else key.astype(np.int64), device=like.device)


def _reduced(name: str, rows: DeviceRows, axis: Values = None, keepdims: bool = False, dtype: Values = None) -> DeviceRows:
    function, tensor = getattr(loaded(), name), rows.tensor
    if dtype is not None or (name == "mean" and not tensor.is_floating_point()):
        tensor = tensor.to(_torch(float if dtype is None else dtype))
    if axis is None:
        found = function(tensor)
        return DeviceRows(found.reshape((1,) * tensor.ndim) if keepdims else found)
    return DeviceRows(function(tensor, dim=axis, keepdim=keepdims))


_REDUCED: dict[str, Callable[..., DeviceRows]] = {
    ufunc: functools.partial(_reduced, name)
    for ufunc, name in {
        "add": "sum", "maximum": "amax", "minimum": "amin", "logical_or": "any", "logical_and": "all",
    }.items()
}  # fmt: skip


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
    def join(parts: Values, axis: int = 0) -> DeviceRows:
        like = _first(parts)
        return DeviceRows(getattr(loaded(), name)([_tensor(part, like) for part in parts], dim=axis))

    return join


def _where(condition: Values, *values: Values) -> DeviceRows:
    like = _first((condition, *values))
    return DeviceRows(loaded().where(_tensor(condition, like), *_common(values, like)))


def _select(conditions: Values, choices: Values, default: Values = 0) -> DeviceRows:
    for condition, choice in zip(conditions[::-1], choices[::-1], strict=True):
        default = _where(condition, choice, default)
    return cast(DeviceRows, default)


def times_power_of_two(x: Tensor, exponents: Tensor) -> Tensor:
    """Return ``x * 2**exponents`` without rounding, for exponents of normal numbers: PyTorch's own has those of single ones."""
    powers = (exponents.long().clamp(-1022, 1023) + 1023) << 52
    return x * powers.view(loaded().float64).to(x.dtype)


def _vecdot(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).sum(-1)


_OTHERWISE = {"vecdot": _vecdot, "ldexp": times_power_of_two}


def _clip(a: DeviceRows, a_min: Values = None, a_max: Values = None) -> DeviceRows:
    given = [value for value in (a_min, a_max) if value is not None]
    tensor, *found = _common([a, *given], a.tensor)
    if len({isinstance(value, loaded().Tensor) for value in found}) > 1:  # PyTorch takes two of a kind
        found = [_as(value, a.dtype, a.tensor) for value in found]
    bounds = iter(found)
    low, high = (None if value is None else next(bounds) for value in (a_min, a_max))
    return DeviceRows(loaded().clamp(tensor, low, high))


def _norm(x: DeviceRows, ord: object = None, axis: Values = None, keepdims: bool = False) -> DeviceRows:
    if ord is not None and not isinstance(axis, int):  # of matrices
        raise TypeError(f"numpy.linalg.norm with ord={ord!r}, axis={axis} has no form on a device")
    return DeviceRows(loaded().linalg.vector_norm(x.tensor, 2 if ord is None else ord, dim=axis, keepdim=keepdims))


def _repeat(a: DeviceRows, counts: Values, axis: int) -> DeviceRows:
    size = int(counts.sum()) if isinstance(counts, np.ndarray) and counts.ndim else None  # else the device is waited for
    return DeviceRows(a.tensor.repeat_interleave(_indices(counts, a.tensor), dim=axis, output_size=size))


def _einsum(subscripts: str, *operands: Values, optimize: object = False) -> DeviceRows:
    like = _first(operands)
    return DeviceRows(loaded().einsum(subscripts, *(_tensor(part, like) for part in operands)))


def _full(name: str) -> Callable[..., DeviceRows]:
    def make(a: DeviceRows, *values: Values, dtype: Values = None, shape: Values = None) -> DeviceRows:
        kind, shape = a.tensor.dtype if dtype is None else _torch(dtype), a.shape if shape is None else shape
        return DeviceRows(getattr(a.tensor, name)((shape,) if isinstance(shape, int) else shape, *values, dtype=kind))

    return make


_MADE = (np.zeros, np.ones, np.empty, np.full, np.eye, np.asarray)
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
    "sum": functools.partial(_reduced, "sum"),
    "mean": functools.partial(_reduced, "mean"),
    "max": functools.partial(_reduced, "amax"),
    "amax": functools.partial(_reduced, "amax"),
    "any": functools.partial(_reduced, "any"),
    "all": functools.partial(_reduced, "all"),
    "take_along_axis": lambda a, places, axis: DeviceRows(
        loaded().take_along_dim(a.tensor, _indices(places, a.tensor), dim=axis)
    ),
    "take": lambda a, places, axis: DeviceRows(a.tensor.index_select(axis, _indices(places, a.tensor))),
    "repeat": _repeat,
    "broadcast_to": lambda a, shape: DeviceRows(a.tensor.expand(*shape)),
    "nonzero": lambda a: tuple(map(DeviceRows, a.tensor.nonzero(as_tuple=True))),
    "argmax": lambda a: DeviceRows(a.tensor.argmax()),
    "argwhere": lambda a: DeviceRows(a.tensor.nonzero()),
    "count_nonzero": lambda a: DeviceRows(a.tensor.count_nonzero()),
    "qr": lambda a, mode="reduced": tuple(map(DeviceRows, loaded().linalg.qr(a.tensor, mode=mode))),
    "eigvalsh": lambda a: DeviceRows(loaded().linalg.eigvalsh(a.tensor)),
    "diag": lambda v: DeviceRows(v.tensor.diag()),
    "eigh": lambda a: tuple(map(DeviceRows, loaded().linalg.eigh(a.tensor))),
    "trace": lambda a, axis1=0, axis2=1: DeviceRows(a.tensor.diagonal(dim1=axis1, dim2=axis2).sum(-1)),
    "solve": lambda a, b: DeviceRows(loaded().linalg.solve_ex(a.tensor, b.tensor)[0]),  # which waits for nothing
    "nan_to_num": lambda a: DeviceRows(a.tensor.nan_to_num()),
    "select": _select,
    "copy": lambda a, order="K": a.copy(),  # in whatever layout
    "reshape": lambda a, shape: a.reshape(shape),
    "ravel": lambda a: a.ravel(),
    "swapaxes": lambda a, one, other: a.swapaxes(one, other),
    "split": lambda a, parts, axis=0: [DeviceRows(part) for part in loaded().tensor_split(a.tensor, parts, dim=axis)],
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": lambda a: a.size,
    "result_type": lambda *parts: np.result_type(*(part.dtype if isinstance(part, DeviceRows) else part for part in parts)),
}
