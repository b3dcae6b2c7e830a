"""Values between processes as text and numbers, of a fixed list of types: reading them runs no code, unlike pickle's."""

from __future__ import annotations

import json
import math
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from consensus import _checks

# By name: a class, what values of it are made of, and the function that makes one of that.
Records: TypeAlias = Mapping[str, tuple[type, Callable[[Any], Iterable[Any]], Callable[..., Any]]]
_NONE: Records = {}
_encode, _decode = json.JSONEncoder().encode, json.JSONDecoder().decode
_LENGTH = struct.Struct("<Q")
_OURS = ("consensus.", "topologies.")
_ALLOWED = "None, numbers, text, bytes, arrays of numbers or text, and tuples, lists and dictionaries of these"


def pack(value: object, records: Records = _NONE) -> bytes:
    """Return a value as bytes: JSON, and after it the numbers of arrays.

    It takes plain values, arrays, errors, and objects of the classes in ``records``; any other raises a ``TypeError``.
    """
    writer = _Writer(records)
    text = _encode(writer.tree(value)).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *writer.arrays])


def unpack(content: bytes | memoryview, records: Records = _NONE) -> Any:  # noqa: ANN401  # of the types that pack takes
    """Return the value of :func:`pack`; what it did not write raises a ``ValueError``."""
    try:
        (length,) = _LENGTH.unpack_from(content)
        start = _LENGTH.size + length
        return _Reader(records, memoryview(content)[start:]).value(_decode(str(content[_LENGTH.size : start], "utf-8")))
    except Exception as error:  # whatever a stranger's bytes bring about
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"a message of {len(content)} bytes is none of this package ({what})") from error


class _Writer:
    """Writes values as trees of JSON: objects have one entry, whose name is their type."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.arrays: list[bytes] = []
        self.size = 0

    def tree(self, value: Any) -> Any:  # noqa: ANN401
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is list:
            return [self.tree(item) for item in value]
        if kind is tuple:
            return {"tuple": [self.tree(item) for item in value]}
        if kind is dict:
            return {"dict": [[self.tree(key), self.tree(item)] for key, item in value.items()]}
        if kind is bytes:
            return {"bytes": self.array(np.frombuffer(value, np.uint8))}
        if isinstance(value, np.generic):
            return {"scalar": self.array(np.asarray(value))}
        if isinstance(value, np.ndarray):
            return {"array": self.array(value)}
        for name, (record, parts, _) in self.records.items():
            if kind is record:
                return {name: [self.tree(item) for item in parts(value)]}
        if isinstance(value, Exception):
            return {"error": self.error(value)}
        raise TypeError(f"processes send each other {_ALLOWED}; not {_checks.shown(value)}")

    def array(self, array: np.ndarray) -> list[Any]:
        if array.dtype.hasobject or array.dtype.names:
            raise TypeError(f"processes send each other {_ALLOWED}; not an array of {array.dtype}")
        begin, content = self.size, array.tobytes()
        self.arrays.append(content)
        self.size += len(content)
        return [array.dtype.str, list(array.shape), begin]

    def error(self, error: Exception) -> list[Any]:
        """Return an error's class, one of Python or this package, arguments and notes."""
        known = [base for base in type(error).__mro__ if base.__module__ == "builtins" or base.__module__.startswith(_OURS)]
        same, kind = known[0] is type(error), known[0]
        arguments: tuple[Any, ...] = (str(error) if same else f"{type(error).__name__}: {error}",)
        if same and kind.__module__ == "builtins":
            made: Any = error.__reduce__()[1]  # those of OSError are not all in args
            try:
                _Writer(_NONE).tree(made)
                arguments = made
            except TypeError:  # an object of the user's
                pass
        return [kind.__module__, kind.__name__, self.tree(arguments), self.tree(list(getattr(error, "__notes__", ())))]


class _Reader:
    """Reads the trees of :class:`_Writer`, and their arrays in ``content``."""

    def __init__(self, records: Records, content: memoryview) -> None:
        self.records, self.content = records, content

    def value(self, tree: Any) -> Any:  # noqa: ANN401
        if isinstance(tree, list):
            return [self.value(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        ((kind, content),) = tree.items()
        if kind in self.records:
            return self.records[kind][2](*map(self.value, content))
        return _KINDS[kind](self, content)

    def array(self, about: list[Any]) -> np.ndarray:
        name, shape, begin = about
        dtype = np.dtype(str(name))
        if dtype.hasobject or dtype.names:  # whose bytes would be addresses
            raise TypeError(f"an array of {dtype}")
        if not all(type(size) is int and size >= 0 for size in (*shape, begin)):
            raise ValueError(f"an array of shape {shape} at {begin}")
        count = math.prod(shape)
        if not count:
            return np.empty(shape, dtype)
        return np.frombuffer(self.content, dtype, count, begin).reshape(shape).copy()  # numbers that are there

    def error(self, about: list[Any]) -> Exception:
        module, name, arguments, notes = about
        kind = getattr(sys.modules[module], name) if module == "builtins" or module.startswith(_OURS) else None
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise TypeError(f"{module}.{name} is no error of this package's")
        given = self.value(arguments)
        error: Exception = kind(*given) if module == "builtins" else kind.__new__(kind, *given)  # whose __init__ wants others
        for note in self.value(notes):
            error.add_note(note)
        return error


_KINDS: dict[str, Callable[[_Reader, Any], Any]] = {
    "tuple": lambda reader, items: tuple([reader.value(item) for item in items]),
    "dict": lambda reader, items: {reader.value(key): reader.value(item) for key, item in items},
    "bytes": lambda reader, about: reader.array(about).tobytes(),
    "scalar": lambda reader, about: reader.array(about)[()],
    "array": _Reader.array,
    "error": _Reader.error,
}
