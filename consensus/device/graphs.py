"""Rounds that a device repeats as a whole: what a round asks for is noted, found again, and replayed as a graph of CUDA's."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np

from consensus.device.rows import DeviceRows, _torch
from consensus.frameworks.torch_calls import loaded

if TYPE_CHECKING:
    from torch import Tensor

_NOTES, _GRAPHS = 4096, 16  # calls that are noted, and rounds that are captured, at most
_LOOKS = 8  # rounds in which the method looked at numbers of the device, after which it gets them at once
_ALIGNED = 16  # bytes: where a number begins in what is sent
_SMALL = 4096  # bytes of an array of the host that is compared, and not sent

Sent: TypeAlias = Callable[[Any], "np.dtype | None"]  # the type as which a value of the host is sent; None: it is compared
Place: TypeAlias = tuple[int, tuple[int, ...], np.dtype]  # of rows in a state
_COMPARED = {bool, int, str, type(None), np.ufunc}
_OF_SHAPES = {np.shape, np.ndim, np.size, np.result_type}  # functions that look at no numbers
_OF_VALUES = {np.nonzero, np.argwhere, np.flatnonzero, np.repeat}  # whose shapes only the numbers know


class Rounds:
    """Takes the rounds of a run, and repeats those that ask for the same calls again.

    A method's ``step`` is called in every round, but on rows that know their shapes alone, and note what is asked of them. If
    earlier rounds asked for the same, all of it is done at once, as it was captured, with this round's numbers of the host:
    steps, places of samples, matrices. A round that asks for something new is computed call by call, and so is one that looks
    at numbers of the device. Without CUDA the calls of a captured round are repeated one by one.
    """

    def __init__(self, device: str) -> None:
        self.device, self.first, self.notes, self.looks = device, _Note(None, (), {}, {}), 0, 0
        self.captured: list[_Captured] = []
        self.pool: Any = None  # of memory, which captured rounds share
        self.kept: dict[Place, Tensor] = {}  # the rows of states, which captured rounds read and write

    def step(self, step: Callable[[Any], Any], state: Any) -> Any:  # noqa: ANN401  # any state
        """Return ``step(state)``."""
        if self.looks >= _LOOKS or self.notes >= _NOTES:
            return step(state)
        round = _Round(self)
        given = mapped(state, round.given)
        round.noted(round.places(round.rows), None, ())
        return round.ended(step(given))

    def capture(self, round: _Round, ends: Sequence[Deferred]) -> _Captured | None:
        """Return the calls of a round that waits as one; None if they cannot be captured."""
        try:
            self.captured.append(_Captured(round, ends))
        except RuntimeError:  # something in it waits for the device, or there is no memory for it
            self.looks = _LOOKS
            return None
        return self.captured[-1]

    def keep(self, places: Sequence[Place], rows: Sequence[DeviceRows]) -> None:
        """Copy the rows of a state to where captured rounds have them; some may be there, also in another place."""
        those, copied = {tensor.untyped_storage().data_ptr() for tensor in self.kept.values()}, []
        for place, row in zip(places, rows, strict=True):
            if row.tensor is not self.kept[place]:
                there = row.tensor.untyped_storage().data_ptr() in those
                copied.append((self.kept[place], row.tensor.clone() if there else row.tensor))
        for kept, tensor in copied:
            kept.copy_(tensor)


class _Note(NamedTuple):
    """A call that some round asked for: what it returned, and the notes of what came ``then``.

    ``ends`` has the states that rounds made whose last call it was: how often, or as they were captured.
    """

    form: Any  # None, a number among the round's rows, DeviceRows, or a type of several
    shapes: tuple[tuple[tuple[int, ...], np.dtype], ...]
    then: dict[Any, _Note]
    ends: dict[Any, Any]


class _Call(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    sent: Sent
    made: list[Deferred]

    def of(self, part: Callable[[Any], Any]) -> Any:  # noqa: ANN401
        """Return what the function returns of each ``part`` of its arguments, of which the call's rows get the numbers."""
        found = self.function(*_each(self.args, part))
        for row, value in zip(self.made, found if isinstance(found, tuple | list) else [found], strict=False):
            if (value.shape, value.dtype) != (row.shape, row.dtype):
                raise RuntimeError(f"{self.function.__name__} gives other shapes of the same: give Device(..., graphs=False)")
            row.found = value
        return found


class _Round:
    """The calls of a round. They wait, until one is new or somebody looks at numbers; from then on each is computed at once."""

    def __init__(self, rounds: Rounds) -> None:
        self.rounds, self.note, self.waits, self.looked, self.over = rounds, rounds.first, True, False, False
        self.calls: list[_Call] = []
        self.rows: list[Deferred] = []
        self.sent: list[tuple[Any, np.dtype | None]] = []  # values of the host, and tensors from elsewhere

    def given(self, value: Any) -> Any:  # noqa: ANN401
        """Return a value of the state as the round gets it."""
        return self._made(value.shape, value.dtype, value) if isinstance(value, DeviceRows) else value

    @staticmethod
    def places(rows: Sequence[DeviceRows]) -> tuple[Place, ...]:
        return tuple((place, row.shape, row.dtype) for place, row in enumerate(rows))

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], sent: Sent) -> Any:  # noqa: ANN401
        """Return ``function(*args)``, now or later."""
        call, key = _Call(function, args, sent, []), None
        if not self.looked:
            try:
                key = function, self._key(args, sent)
                known = key in self.note.then
            except TypeError:  # there is no saying whether it is the same
                self.look()
        if self.looked:
            return call.of(_found)
        if self.waits and not known:
            self.compute()
        self.calls.append(call)
        if self.waits:
            self.note = self.note.then[key]
            return self._returned(call)
        found = call.of(_found)
        form, several = self._form(args, found)
        if form is _Unknown:
            self.look()
            return found
        self.noted(key, form, tuple((row.shape, row.dtype) for row in several))
        returned = self._returned(call)
        for row, value in zip(call.made, several, strict=True):
            row.found = value
        return returned

    def look(self) -> None:
        """Compute what waits, because somebody wants numbers; the rest of the round is not noted."""
        if self.over:
            raise RuntimeError("the method keeps rows beside its state: give Device(..., graphs=False)")
        self.compute()
        self.looked = True

    def compute(self) -> None:
        if self.waits:
            self.waits = False
            for call in self.calls:
                call.of(_found)

    def ended(self, state: Any) -> Any:  # noqa: ANN401
        """Return the state that the round made, with numbers."""
        ends: list[Any] = []
        mapped(state, lambda value: ends.append(value) if isinstance(value, DeviceRows) else None)
        captured = None
        if not self.looked and all(isinstance(row, Deferred) and row.round is self for row in ends):
            key = tuple(row.place for row in ends)
            captured = self.note.ends.get(key, 0)
            if self.waits and captured == 1 and len(self.rounds.captured) < _GRAPHS:
                captured = self.rounds.capture(self, ends)
            self.note.ends[key] = captured = captured or 1
        self.rounds.looks += self.looked
        if isinstance(captured, _Captured) and self.waits:
            found = captured.repeat(self)
        else:
            self.compute()
            found = [row.computed if isinstance(row, Deferred) else row for row in ends]
        self.over = True
        for row in self.rows:  # a round and its rows hold each other
            row.found = None
        left = iter(found)
        return mapped(state, lambda value: next(left) if isinstance(value, DeviceRows) else value)

    def noted(self, key: Any, form: Any, shapes: Any) -> None:  # noqa: ANN401
        """Go on to the note of a call, which may be new."""
        if key not in self.note.then:
            self.note.then[key] = _Note(form, shapes, {}, {})
            self.rounds.notes += 1
        self.note = self.note.then[key]

    def _returned(self, call: _Call) -> Any:  # noqa: ANN401
        form, shapes, *_ = self.note
        for shape, dtype in shapes:
            call.made.append(self._made(shape, dtype, None))
        if form is DeviceRows:
            return call.made[0]
        if type(form) is int:
            return self.rows[form]
        return None if form is None else form(call.made)

    def _made(self, shape: tuple[int, ...], dtype: np.dtype, found: DeviceRows | None) -> Deferred:
        row = Deferred(self, len(self.rows), shape, dtype, found)
        self.rows.append(row)
        return row

    def _form(self, args: Any, found: Any) -> tuple[Any, Sequence[DeviceRows]]:  # noqa: ANN401
        if found is None:
            return None, []
        given: list[Any] = []
        _each(args, given.append)
        for row in given:
            if isinstance(row, Deferred) and row.found is found:  # changed in place
                return row.place, []
        if isinstance(found, DeviceRows):
            return DeviceRows, [found]
        several = type(found) in (tuple, list) and all(isinstance(part, DeviceRows) for part in found)
        return (type(found), found) if several else (_Unknown, [])

    def _key(self, value: Any, sent: Sent) -> Any:  # noqa: ANN401
        """Return what two rounds have in common that ask for the same, and note what is to be sent.

        Raise ``TypeError`` if there is no saying.
        """
        kind = type(value)
        if kind is tuple or kind is list:
            return (kind, *[self._key(part, sent) for part in value])
        if kind is Deferred and value.round is self:
            return value.place
        if kind in _COMPARED:
            return kind, value
        if _elsewhere(value):
            self.sent.append((value, None))
            return kind, value.shape, value.dtype
        if (dtype := sent(value)) is not None:
            self.sent.append((value.copy() if isinstance(value, np.ndarray) else value, dtype))
            return np.shape(value), dtype
        if kind is slice:
            return kind, value.start, value.stop, value.step
        if isinstance(value, np.ndarray):
            if value.nbytes > _SMALL:
                raise TypeError
            return value.shape, value.dtype, value.tobytes()
        if isinstance(value, float | np.floating):
            return kind, repr(value)  # 0.0 and -0.0 are equal, but not the same
        return kind, value


class _Unknown:
    """The form of something that is neither rows nor several of them."""


class Deferred(DeviceRows):
    """Rows that a round asked for: they are computed when somebody looks at them, or at its end."""

    __slots__ = ("dtype", "found", "place", "round", "shape")
    shape: tuple[int, ...]
    dtype: np.dtype

    def __init__(self, round: _Round, place: int, shape: tuple[int, ...], dtype: np.dtype, found: DeviceRows | None) -> None:
        self.round, self.place, self.shape, self.dtype, self.found = round, place, shape, dtype, found

    @property
    def tensor(self) -> Tensor:
        self.round.look()
        return self.computed.tensor

    @property
    def computed(self) -> DeviceRows:
        assert self.found is not None
        return self.found

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def T(self) -> DeviceRows:
        return cast(DeviceRows, self.round.call(_transposed, (self,), _of_nothing))

    def __getitem__(self, key: Any) -> DeviceRows:  # noqa: ANN401
        return cast(DeviceRows, self.round.call(DeviceRows.__getitem__, (self, self._places(key)), _of_places))

    def __setitem__(self, key: Any, value: Any) -> None:  # noqa: ANN401
        self.round.call(DeviceRows.__setitem__, (self, self._places(key), value), _of_places)

    def _places(self, key: Any) -> Any:  # noqa: ANN401
        """Return a key; how many entries truths of the device take, only they know."""
        for part in key if isinstance(key, tuple) else (key,):
            if isinstance(part, DeviceRows) and part.dtype == bool:
                self.round.look()
        return key

    def called(self, function: Callable[..., Any], *values: Any) -> Any:  # noqa: ANN401
        return self.round.call(function, (self, *values), _of_arrays)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:  # noqa: ANN401
        kinds = {part.dtype for part in inputs if isinstance(part, DeviceRows)}
        one = method == "__call__" and len(kinds) == 1
        sent = _of_numbers(*kinds) if one else _of_nothing
        if method == "__call__" and not options:
            return self.round.call(_applied, (ufunc, *inputs), sent)
        return self.round.call(_ufunc, (ufunc, method, inputs, tuple(options), tuple(options.values())), sent)

    def __array_function__(self, function: Callable[..., Any], types: object, args: Any, kwargs: Any) -> Any:  # noqa: ANN401
        if function in _OF_SHAPES:
            return super().__array_function__(function, types, args, kwargs)
        if function in _OF_VALUES:
            self.round.look()
        sent = _of_places if function is np.take_along_axis else _of_nothing
        return self.round.call(_function, (self, function, args, tuple(kwargs), tuple(kwargs.values())), sent)


def _method(name: str) -> Callable[..., Any]:
    def call(rows: DeviceRows, args: Any, names: Any, values: Any) -> Any:  # noqa: ANN401
        return getattr(rows, name)(*args, **dict(zip(names, values, strict=True)))

    return lambda self, *args, **options: self.round.call(
        call, (self, args, tuple(options), tuple(options.values())), _of_nothing
    )


for _name in ("copy", "astype", "reshape", "ravel", "swapaxes", "sum", "mean", "max", "min", "any", "all"):
    setattr(Deferred, _name, _method(_name))


def _transposed(rows: DeviceRows) -> DeviceRows:
    return rows.T


def _applied(ufunc: np.ufunc, *inputs: Any) -> Any:  # noqa: ANN401
    return _ufunc(ufunc, "__call__", inputs, (), ())


def _ufunc(ufunc: np.ufunc, method: str, inputs: Any, names: Any, values: Any) -> Any:  # noqa: ANN401
    rows = next(part for part in (*inputs, *values) if isinstance(part, DeviceRows))
    return rows.__array_ufunc__(ufunc, method, *inputs, **dict(zip(names, values, strict=True)))


def _function(rows: DeviceRows, function: Callable[..., Any], args: Any, names: Any, values: Any) -> Any:  # noqa: ANN401
    return rows.__array_function__(function, (), args, dict(zip(names, values, strict=True)))


# Values of the host that a call gets anew in every round.


def _of_nothing(value: object) -> None:
    return None


@functools.cache
def _of_numbers(dtype: np.dtype) -> Sent:
    """Return the rule of operators between rows of one type, which arrays of the host get."""
    if dtype.kind != "f":
        return _of_nothing
    return lambda value: dtype if isinstance(value, float | np.floating) or _array(value, "f") else None


def _of_places(value: Any) -> np.dtype | None:  # noqa: ANN401
    return np.dtype(np.int64) if _array(value, "iu") else None


def _of_arrays(value: Any) -> np.dtype | None:  # noqa: ANN401
    return value.dtype if _array(value, "fi") else None


def _array(value: Any, kinds: str) -> bool:  # noqa: ANN401
    return isinstance(value, np.ndarray) and value.dtype.kind in kinds


def _elsewhere(value: Any) -> bool:  # noqa: ANN401
    """Return whether a value is on the device, but of no call of the round."""
    torch = loaded()
    return isinstance(value, DeviceRows) or (isinstance(value, torch.Tensor) and value.layout == torch.strided)


def _found(value: Any) -> Any:  # noqa: ANN401
    """Return a part of a call's arguments with its numbers."""
    if not isinstance(value, Deferred):
        return value
    if value.found is None:
        value.round.look()  # it is one of another round
    return value.computed


def _each(value: Any, part: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    return type(value)([_each(one, part) for one in value]) if type(value) in (tuple, list) else part(value)


def mapped(state: Any, function: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    """Return a state with ``function`` of each of its values, in the order of :func:`consensus.communication.flatten`."""
    return type(state)(
        *[
            mapped(value, function) if isinstance(value, tuple) and hasattr(value, "_fields") else function(value)
            for value in state
        ]
    )


class _Captured:
    """The calls of a round, on memory of their own: the rows of the state, and what the host sends."""

    def __init__(self, round: _Round, ends: Sequence[Deferred]) -> None:
        torch, self.rounds, self.calls, self.rows, self.ends = loaded(), round.rounds, round.calls, round.rows, ends
        self.left, given = round.places(ends), [row for row in round.rows if row.found is not None]
        self.given = round.places(given)
        kept, device = self.rounds.kept, self.rounds.device
        for place in {*self.given, *self.left} - kept.keys():
            kept[place] = torch.empty(place[1], dtype=_torch(place[2]), device=device)
        self.sending = _Sending([(value, dtype) for value, dtype in round.sent if dtype is not None], device)
        self.copies = [(value, _tensor(value).clone()) for value, dtype in round.sent if dtype is None]
        self._take(round)
        self._replay = _graph(self._done, self.rounds)

    def repeat(self, round: _Round) -> list[DeviceRows]:
        """Take a round whose calls are the same; return the rows of its state."""
        self._take(round)
        self._replay()
        return [DeviceRows(self.rounds.kept[place]) for place in self.left]

    def _take(self, round: _Round) -> None:
        """Put a round's state, and what the host sends, to where the calls have them."""
        self.rounds.keep(self.given, [row.computed for row in round.rows[: len(self.given)]])
        self.sending.send([value for value, dtype in round.sent if dtype is not None])
        others = [value for value, dtype in round.sent if dtype is None]
        for place, (value, (latest, copy)) in enumerate(zip(others, self.copies, strict=True)):
            if value is not latest or isinstance(value, DeviceRows):
                copy.copy_(_tensor(value))
                self.copies[place] = value, copy

    def _done(self) -> None:
        """Do what the calls say."""
        for row, place in zip(self.rows, self.given, strict=False):
            row.found = DeviceRows(self.rounds.kept[place])
        sent, copies = iter(self.sending.there), iter(self.copies)
        for call in self.calls:

            def part(value: Any, of: Sent = call.sent) -> Any:  # noqa: ANN401
                if type(value) is Deferred:
                    return value.computed
                if _elsewhere(value):
                    copy = next(copies)[1]
                    return DeviceRows(copy) if isinstance(value, DeviceRows) else copy
                return value if of(value) is None else next(sent)

            call.of(part)
        self.rounds.keep(self.left, [row.computed for row in self.ends])
        for row in self.rows[len(self.given) :]:
            row.found = None


def _graph(do: Callable[[], None], rounds: Rounds) -> Callable[[], None]:
    """Return what does the same, without asking for each of its kernels where there is CUDA: it is not done now."""
    if not rounds.device.startswith("cuda"):
        return do
    torch = loaded()
    graph, rounds.pool = torch.cuda.CUDAGraph(), rounds.pool or torch.cuda.graph_pool_handle()
    with torch.cuda.graph(graph, pool=rounds.pool):
        do()
    return cast("Callable[[], None]", graph.replay)


class _Sending:
    """Numbers of the host, which go to the device in one copy."""

    def __init__(self, values: Sequence[tuple[Any, np.dtype]], device: str) -> None:
        torch, cuda = loaded(), device.startswith("cuda")
        sizes = [np.size(value) * dtype.itemsize for value, dtype in values]
        starts = np.cumsum([0, *(-(-size // _ALIGNED) * _ALIGNED for size in sizes)]).tolist()
        self._bytes = torch.empty(starts[-1], dtype=torch.uint8, device=device)
        # Two, as the device may still read the one of the round before.
        staged = [torch.empty(starts[-1], dtype=torch.uint8, pin_memory=cuda) for _ in range(2)]
        spans = [slice(start, start + size) for start, size in zip(starts, sizes, strict=False)]
        self.there = [
            DeviceRows(self._bytes[span].view(_torch(dtype)).reshape(np.shape(value)))
            for span, (value, dtype) in zip(spans, values, strict=True)
        ]
        self._staged = [
            (
                one,
                torch.cuda.Event() if cuda else None,
                [
                    one.numpy()[span].view(dtype).reshape(np.shape(value))
                    for span, (value, dtype) in zip(spans, values, strict=True)
                ],
            )
            for one in staged
        ]

    def send(self, values: Sequence[Any]) -> None:
        self._staged.reverse()
        staged, read, views = self._staged[0]
        if read is not None:
            read.synchronize()
        for view, value in zip(views, values, strict=True):
            view[...] = value
        self._bytes.copy_(staged, non_blocking=True)
        if read is not None:
            read.record()


def _tensor(value: Any) -> Tensor:  # noqa: ANN401
    found: Tensor = value.tensor if isinstance(value, DeviceRows) else value
    return found
