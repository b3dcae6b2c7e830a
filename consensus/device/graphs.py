"""Rounds that a device repeats as a whole: what a round asks for is noted, found again, and replayed as a graph of CUDA's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np

from consensus.communication.states import flatten, rebuild
from consensus.device.rows import DeviceRows
from consensus.frameworks.torch_calls import loaded

if TYPE_CHECKING:
    from torch import Tensor

_NOTES, _GRAPHS = 4096, 16  # calls that are noted, and rounds that are captured, at most
_LOOKS = 8  # rounds in which the method looked at numbers of the device, after which it gets them at once
_ALIGNED = 16  # bytes: where a number begins in what is sent
_SMALL = 4096  # bytes of an array of the host that is compared, and not sent

Sent: TypeAlias = Callable[[Any], "np.dtype | None"]  # the type as which a value of the host is sent; None: it is compared
Name: TypeAlias = tuple[str, tuple[int, ...], np.dtype]  # of rows in a state


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
        self.kept: dict[Name, Tensor] = {}  # the rows of states, which captured rounds read and write

    def step(self, step: Callable[[Any], Any], state: Any) -> Any:  # noqa: ANN401  # any state
        """Return ``step(state)``."""
        if self.looks >= _LOOKS or self.notes >= _NOTES:
            return step(state)
        round = _Round(self, flatten(state))
        return round.ended(step(mapped(state, round.given)))

    def capture(self, round: _Round, names: Sequence[Name], places: Sequence[int]) -> _Captured | None:
        """Return the calls of a round that waits as one; None if they cannot be captured."""
        try:
            self.captured.append(_Captured(round, names, places))
        except RuntimeError:  # something in it waits for the device, or there is no memory for it
            self.looks = _LOOKS
            return None
        return self.captured[-1]

    def keep(self, names: Sequence[Name], rows: Sequence[DeviceRows]) -> None:
        """Copy the rows of a state to where captured rounds have them; some may be there, also under another name."""
        places, copied = {tensor.untyped_storage().data_ptr() for tensor in self.kept.values()}, []
        for name, row in zip(names, rows, strict=True):
            if row.tensor is not self.kept[name]:
                there = row.tensor.untyped_storage().data_ptr() in places
                copied.append((self.kept[name], row.tensor.clone() if there else row.tensor))
        for kept, tensor in copied:
            kept.copy_(tensor)


class _Note(NamedTuple):
    """A call that some round asked for: what it returned, and the notes of what came ``then``.

    ``ends`` has the states that rounds made whose last call it was: how often, or as they were captured.
    """

    form: Any  # None, a place among the round's rows, DeviceRows, or a type of several
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
            row.found = value
        return found


class _Round:
    """The calls of a round. They wait, until one is new or somebody looks at numbers; from then on each is computed at once."""

    def __init__(self, rounds: Rounds, fields: dict[str, Any]) -> None:
        self.rounds, self.waits, self.looked, self.over = rounds, True, False, False
        self.calls: list[_Call] = []
        self.rows: list[Deferred] = []
        self.sent: list[tuple[Any, np.dtype | None]] = []  # values of the host, and tensors from elsewhere
        self.names = _names(fields)
        self.note = self._noted(rounds.first, tuple(self.names), None, ())

    def given(self, value: Any) -> Any:  # noqa: ANN401
        """Return a value of the state as the round gets it."""
        return self._made(value.shape, value.dtype, value) if isinstance(value, DeviceRows) else value

    def call(self, function: Callable[..., Any], *args: Any, sent: Sent) -> Any:  # noqa: ANN401
        """Return ``function(*args)``, now or later."""
        key, call = None if self.looked else self._key(args, sent), _Call(function, args, sent, [])
        if key is None:
            self.look()
            return call.of(_found)
        key = function, key
        if self.waits and key not in self.note.then:
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
        self.note = self._noted(self.note, key, form, tuple((row.shape, row.dtype) for row in several))
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
        rounds, fields = self.rounds, flatten(state)
        rows, names = [row for row in fields.values() if isinstance(row, DeviceRows)], _names(fields)
        places, captured = [row.place for row in rows if isinstance(row, Deferred) and row.round is self], None
        if not self.looked and len(places) == len(rows):
            key = tuple(names), tuple(places)
            captured = self.note.ends.get(key, 0)
            if self.waits and captured and not isinstance(captured, _Captured) and len(rounds.captured) < _GRAPHS:
                captured = rounds.capture(self, names, places)
            self.note.ends[key] = captured = captured or 1
        rounds.looks += self.looked
        if isinstance(captured, _Captured) and self.waits:
            captured.repeat(self)
            found = [DeviceRows(rounds.kept[name]) for name in names]
        else:
            self.compute()
            found = [row.computed if isinstance(row, Deferred) else row for row in rows]
        self.over = True
        for row in self.rows:  # a round and its rows hold each other
            row.found = None
        return rebuild(state, fields | dict(zip([name for name, *_ in names], found, strict=True)))

    def _noted(self, note: _Note, key: Any, form: Any, shapes: Any) -> _Note:  # noqa: ANN401
        if key not in note.then:
            note.then[key] = _Note(form, shapes, {}, {})
            self.rounds.notes += 1
        return note.then[key]

    def _returned(self, call: _Call) -> Any:  # noqa: ANN401
        form, shapes, *_ = self.note
        call.made.extend(self._made(*shape, None) for shape in shapes)
        if form is DeviceRows:
            return call.made[0]
        if type(form) is int:
            return self.rows[form]
        return None if form is None else form(call.made)

    def _made(self, shape: tuple[int, ...], dtype: np.dtype, found: DeviceRows | None) -> Deferred:
        self.rows.append(Deferred(self, len(self.rows), shape, dtype, found))
        return self.rows[-1]

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

    def _key(self, args: Any, sent: Sent) -> Any:  # noqa: ANN401
        """Return what two rounds have in common that ask for the same; None if that is not known. Note what is to be sent."""
        found: list[tuple[Any, ...]] = []

        def part(value: Any) -> None:  # noqa: ANN401
            if isinstance(value, Deferred) and value.round is self:
                found.append((Deferred, value.place))
            elif _elsewhere(value):
                found.append((type(value), value.shape, value.dtype))
                self.sent.append((value, None))
            elif (dtype := sent(value)) is not None:
                found.append((np.shape(value), dtype))
                self.sent.append((value.copy() if isinstance(value, np.ndarray) else value, dtype))
            elif isinstance(value, np.ndarray):
                if value.nbytes > _SMALL:
                    raise TypeError
                found.append((value.shape, value.dtype, value.tobytes()))
            elif isinstance(value, slice):
                found.append((slice, value.start, value.stop, value.step))
            else:
                found.append((type(value), value))

        try:
            key = str(_each(args, part)), *found
            hash(key)
        except TypeError:
            return None
        return key


class _Unknown:
    """The form of something that is neither rows nor several of them."""


class Deferred(DeviceRows):
    """Rows that a round asked for: they are computed when somebody looks at them, or at its end."""

    __slots__ = ("_dtype", "_shape", "found", "place", "round")

    def __init__(self, round: _Round, place: int, shape: tuple[int, ...], dtype: np.dtype, found: DeviceRows | None) -> None:
        self.round, self.place, self._shape, self._dtype, self.found = round, place, shape, dtype, found

    @property
    def tensor(self) -> Tensor:
        self.round.look()
        return self.computed.tensor

    @property
    def computed(self) -> DeviceRows:
        assert self.found is not None
        return self.found

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def size(self) -> int:
        return int(np.prod(self._shape))

    def __len__(self) -> int:
        return self._shape[0]

    @property
    def T(self) -> DeviceRows:
        return cast(DeviceRows, self._asked(_transposed, self))

    def __getitem__(self, key: Any) -> DeviceRows:  # noqa: ANN401
        return cast(DeviceRows, self._asked(DeviceRows.__getitem__, self, self._places(key), sent=_of_places))

    def __setitem__(self, key: Any, value: Any) -> None:  # noqa: ANN401
        self._asked(DeviceRows.__setitem__, self, self._places(key), value, sent=_of_places)

    def _places(self, key: Any) -> Any:  # noqa: ANN401
        """Return a key; how many entries truths of the device take, only they know."""
        for part in key if isinstance(key, tuple) else (key,):
            if isinstance(part, DeviceRows) and part.dtype == bool:
                self.round.look()
        return key

    def called(self, function: Callable[..., Any], *values: Any) -> Any:  # noqa: ANN401
        return self._asked(function, self, *values, sent=_of_arrays)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:  # noqa: ANN401
        kinds = {part.dtype for part in inputs if isinstance(part, DeviceRows)}
        one = method == "__call__" and len(kinds) == 1 and next(iter(kinds)).kind == "f"
        sent = functools.partial(_of_numbers, kinds.pop()) if one else _of_nothing
        return self._asked(_ufunc, ufunc, method, inputs, tuple(options), tuple(options.values()), sent=sent)

    def __array_function__(self, function: Callable[..., Any], types: object, args: Any, kwargs: Any) -> Any:  # noqa: ANN401
        sent = _of_places if function is np.take_along_axis else _of_nothing
        return self._asked(_function, self, function, args, tuple(kwargs), tuple(kwargs.values()), sent=sent)

    def _asked(self, function: Any, *args: Any, sent: Sent | None = None) -> Any:  # noqa: ANN401
        return self.round.call(function, *args, sent=sent or _of_nothing)


def _method(name: str) -> Callable[..., Any]:
    def call(rows: DeviceRows, args: Any, names: Any, values: Any) -> Any:  # noqa: ANN401
        return getattr(rows, name)(*args, **dict(zip(names, values, strict=True)))

    return lambda self, *args, **options: self._asked(call, self, args, tuple(options), tuple(options.values()))


for _name in ("copy", "astype", "reshape", "ravel", "swapaxes", "sum", "mean", "max", "min", "any", "all"):
    setattr(Deferred, _name, _method(_name))


def _transposed(rows: DeviceRows) -> DeviceRows:
    return rows.T


def _ufunc(ufunc: np.ufunc, method: str, inputs: Any, names: Any, values: Any) -> Any:  # noqa: ANN401
    rows = next(part for part in (*inputs, *values) if isinstance(part, DeviceRows))
    return rows.__array_ufunc__(ufunc, method, *inputs, **dict(zip(names, values, strict=True)))


def _function(rows: DeviceRows, function: Callable[..., Any], args: Any, names: Any, values: Any) -> Any:  # noqa: ANN401
    return rows.__array_function__(function, (), args, dict(zip(names, values, strict=True)))


# Values of the host that a call gets anew in every round.


def _of_nothing(value: object) -> None:
    return None


def _of_numbers(dtype: np.dtype, value: Any) -> np.dtype | None:  # noqa: ANN401
    """Of operators between rows of one type, which arrays of the host get."""
    return dtype if isinstance(value, float | np.floating) or _array(value, "f") else None


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


def _names(fields: dict[str, Any]) -> list[Name]:
    return [(name, row.shape, row.dtype) for name, row in fields.items() if isinstance(row, DeviceRows)]


def mapped(state: Any, function: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    """Return a state with ``function`` of each of its values."""
    return rebuild(state, {name: function(value) for name, value in flatten(state).items()})


class _Captured:
    """The calls of a round, on memory of their own: the rows of the state, and what the host sends."""

    def __init__(self, round: _Round, names: Sequence[Name], places: Sequence[int]) -> None:
        torch, self.rounds, self.names, self.places = loaded(), round.rounds, names, places
        self.calls, self.rows, self.given = round.calls, round.rows, round.names
        kept, device = self.rounds.kept, self.rounds.device
        for name in {*self.given, *names} - kept.keys():
            kept[name] = torch.empty(name[1], dtype=_torch(name[2]), device=device)
        self.sending = _Sending([(value, dtype) for value, dtype in round.sent if dtype is not None], device)
        self.copies = [(value, _tensor(value).clone()) for value, dtype in round.sent if dtype is None]
        self.graph: Any = None
        if device.startswith("cuda"):
            graph, before = torch.cuda.CUDAGraph(), self.rounds.captured
            with torch.cuda.graph(graph, pool=before[0].graph.pool() if before else None):
                self._done()
            self.graph = graph

    def repeat(self, round: _Round) -> None:
        """Take the round whose calls are the same."""
        self.rounds.keep(self.given, [row.computed for row in round.rows[: len(self.given)]])
        self.sending.send([value for value, dtype in round.sent if dtype is not None])
        others = [value for value, dtype in round.sent if dtype is None]
        for place, (value, (latest, copy)) in enumerate(zip(others, self.copies, strict=True)):
            if value is not latest or isinstance(value, DeviceRows):
                copy.copy_(_tensor(value))
                self.copies[place] = value, copy
        if self.graph is None:
            self._done()
        else:
            self.graph.replay()

    def _done(self) -> None:
        """Do what the calls say."""
        for row, name in zip(self.rows, self.given, strict=False):
            row.found = DeviceRows(self.rounds.kept[name])
        sent, copies = iter(self.sending.there), iter(self.copies)
        for call in self.calls:

            def part(value: Any, of: Sent = call.sent) -> Any:  # noqa: ANN401
                if isinstance(value, Deferred) and value.round is self.rows[0].round:
                    return value.found
                if _elsewhere(value):
                    copy = next(copies)[1]
                    return DeviceRows(copy) if isinstance(value, DeviceRows) else copy
                return value if of(value) is None else next(sent)

            call.of(part)
        self.rounds.keep(self.names, [self.rows[place].computed for place in self.places])
        for row in self.rows:
            row.found = None


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


def _torch(dtype: np.dtype) -> Any:  # noqa: ANN401  # a type of PyTorch's
    return getattr(loaded(), dtype.name)
