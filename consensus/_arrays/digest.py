"""Digests of objects by their settings, arrays and code, not by their ``repr``."""

import copyreg
import dataclasses
import dis
import functools
import hashlib
import inspect
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np
from scipy import sparse

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
_COPIED = 1 << 20  # bytes
_PACKAGES = ("consensus", "topologies")
_DOCSTRING = 0x4000000  # a flag of code since Python 3.13
_MADE = (FunctionType, property, classmethod, staticmethod, functools.cached_property)  # code in the namespace of a class


def digest(*things: object) -> str:
    """Return a digest of ``things``, the same in every process and session.

    An object counts as its class and what pickle would send: its attributes, or what its ``__getstate__`` returns, with arrays
    by dtype, shape and bytes. Values of ``functools.cached_property`` and fields of dataclasses with ``compare=False`` do not
    count. Modules, and functions and classes of installed packages, count by name; those of this one by their name without the
    module, since files move and public names stay. Others count by their bytecode, constants, defaults and attributes, and by
    the values of globals and enclosing variables that the code names. An attribute that cannot be pickled, such as a lock,
    raises a ``TypeError`` that names it; as a class attribute or a global it counts by its type.
    """
    writer = _Writer()
    for thing in things:
        writer.add(thing, type(thing).__name__)
    return writer.hash.hexdigest()[:16]


class _Writer:
    """Writes objects to a hash, unequal ones in different forms."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.code: dict[int, tuple[int, object]] = {}  # functions and classes by identity: their number, and they themselves
        self.within: dict[int, int] = {}  # the objects that are being written, by identity: how deep

    def put(self, kind: str, content: bytes | str = b"") -> None:
        content = content.encode(errors="surrogatepass") if isinstance(content, str) else content
        self.hash.update(f"{kind} {len(content)}:".encode())
        self.hash.update(content)

    def put_numbers(self, array: np.ndarray) -> None:
        """Write an array's bytes, with a copy of some at a time at most."""
        self.hash.update(f"bytes {array.nbytes}:".encode())
        array = np.atleast_1d(array)
        few = max(1, _COPIED // max(1, array[:1].nbytes))
        for first in range(0, len(array), few):
            self.hash.update(array[first : first + few].tobytes())

    def add(self, thing: Any, place: str) -> None:  # noqa: ANN401  # of the class that is looked up
        """Write ``thing``; errors call it ``place``."""
        kind = type(thing)
        if kind in _PLAIN:
            self.put(kind.__name__, thing if kind in (str, bytes) else repr(thing))
        elif isinstance(thing, ModuleType):
            self.put("module", thing.__name__)
        elif isinstance(thing, type):
            self.add_class(thing)
        elif kind is FunctionType:
            self.add_function(thing)
        elif kind is CodeType:
            self.add_code(thing)
        elif kind is BuiltinFunctionType and isinstance(thing.__self__, ModuleType | None):
            self.put("builtin", f"{_home(thing.__module__)}.{thing.__qualname__}")
        elif id(thing) in self.within:
            self.put("within", str(len(self.within) - self.within[id(thing)]))
        else:
            self.within[id(thing)] = len(self.within)
            try:
                self.add_object(thing, kind, place)
            finally:
                del self.within[id(thing)]

    def add_all(self, things: Iterable[object], place: str) -> None:
        things = list(things)
        self.put("items", str(len(things)))
        for number, thing in enumerate(things):
            self.add(thing, f"{place}[{number}]")

    def apart(self, thing: object, place: str) -> bytes:
        """Return the digest of a part whose position does not count."""
        writer = _Writer()
        writer.within = self.within
        writer.add(thing, place)
        return writer.hash.digest()

    def add_object(self, thing: Any, kind: type, place: str) -> None:  # noqa: ANN401
        if kind in (tuple, list):
            self.put(kind.__name__)
            self.add_all(thing, place)
        elif kind in (set, frozenset):
            self.put(kind.__name__, b"".join(sorted(self.apart(item, place) for item in thing)))
        elif kind is dict:
            self.put("dict")
            self.add_all(thing, place)
            for key, value in thing.items():
                self.add(value, f"{place}[{key!r}]")
        elif kind in (np.ndarray, np.memmap):
            self.put("array", f"{thing.dtype.str} {thing.shape}")
            if thing.dtype.hasobject:
                self.add_all(thing.ravel().tolist(), place)
            else:
                self.put_numbers(thing)
        elif sparse.issparse(thing):  # which note in attributes whether they are sorted when they are asked for the first time
            entries = thing.tocoo()
            self.put("sparse", f"{thing.format} {thing.shape}")
            self.add_all((entries.row, entries.col, entries.data), place)
        elif "torch" in sys.modules and isinstance(thing, sys.modules["torch"].Tensor):  # they pickle with an address
            tensor = thing.detach().cpu().contiguous()
            self.put("tensor", f"{tensor.dtype} {tuple(tensor.shape)}")
            self.put("bytes", tensor.reshape(-1).view(sys.modules["torch"].uint8).numpy().tobytes())
        else:
            self.add_pickled(thing, kind, place)

    def add_pickled(self, thing: object, kind: type, place: str) -> None:
        try:
            reduced = copyreg.dispatch_table[kind](thing) if kind in copyreg.dispatch_table else thing.__reduce_ex__(4)
        except Exception as error:  # a user's own __getstate__ may raise anything
            raise TypeError(
                f"{place} cannot be compared with another run's ({error}): leave it out of what __getstate__ of its owner "
                "returns, and make it where it is used"
            ) from error
        if isinstance(reduced, str):
            self.put("name", f"{_home(getattr(thing, '__module__', None))}.{reduced}")
            self.add(getattr(thing, "__wrapped__", None), place)  # a function that is cached
            return
        self.put("object")
        make, arguments, state, items, pairs, setter = [*reduced, None, None, None, None][:6]
        self.add(make, place)
        self.add_all(arguments, place)
        for part in state if isinstance(state, tuple) else (state,):  # attributes, or those in a dict and those in slots
            if type(part) is dict and all(isinstance(name, str) for name in part):
                self.add_attributes({name: part[name] for name in sorted(part) if not _left_out(kind, name)}, place)
            else:
                self.add(part, place)
        self.add_all(items or (), place)
        self.add_all((part for pair in pairs or () for part in pair), place)
        self.add(setter, place)

    def add_attributes(self, attributes: Mapping[str, object], place: str) -> None:
        self.put("attributes", str(len(attributes)))
        for name, value in attributes.items():
            self.put("name", name)
            self.add(value, f"{place}.{name}")

    def add_named(self, values: Mapping[str, object]) -> None:
        """Write the values that code names, and class attributes; those without a digest count by their type."""
        self.put("named", str(len(values)))
        for name in sorted(values):
            self.put("name", name)
            try:
                self.add(values[name], name)
            except TypeError:
                self.put("type", type(values[name]).__qualname__)

    def add_class(self, kind: type) -> None:
        self.put("class", f"{_home(kind.__module__) if _installed(kind.__module__) else ''} {kind.__qualname__}")
        if not _installed(kind.__module__) and self.is_new(kind):
            self.add_all(kind.__bases__, kind.__qualname__)
            self.add_named({name: _function(value) for name, value in vars(kind).items() if _counts(name, value)})

    def add_function(self, function: FunctionType) -> None:
        code, module = function.__code__, function.__globals__.get("__name__", "")
        self.put("function", f"{_home(module) if _installed(module) else ''} {code.co_qualname}")
        if (not _installed(module) or "<locals>" in code.co_qualname) and self.is_new(function):
            self.add_all((function.__defaults__, function.__kwdefaults__), code.co_qualname)
            enclosing = zip(code.co_freevars, function.__closure__ or (), strict=True)
            self.add_named({name: _content(cell) for name, cell in enclosing} | vars(function))
            if not _installed(module):
                self.add_code(code)
                known = function.__globals__
                self.add_named({name: known[name] for name in _global_names(code) if name in known})

    def add_code(self, code: CodeType) -> None:
        about = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & ~_DOCSTRING, code.co_varnames
        self.put("code", repr(about))
        self.put("exceptions", code.co_exceptiontable)
        for instruction in dis.get_instructions(code):
            self.put(instruction.opname)
            if instruction.opcode in dis.hasconst:  # not by its place among constants, of which a docstring is one
                self.add(instruction.argval, code.co_qualname)
            else:
                self.put("argument", f"{instruction.arg} {instruction.argval}")

    def is_new(self, thing: object) -> bool:
        """Return whether a function or class comes for the first time; its number stands for it from then on."""
        new = id(thing) not in self.code
        number, _ = self.code.setdefault(id(thing), (len(self.code), thing))
        self.put("new" if new else "again", str(number))
        return new


@functools.cache
def _installed(module: str) -> bool:
    """Return whether a module belongs to this package, Python or an installed package; ``__main__`` is the user's."""
    if module == "__main__":
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    top = module.partition(".")[0]
    return (
        top in _PACKAGES
        or top in sys.stdlib_module_names
        or not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)
    )


def _home(module: str | None) -> str:
    """Return the name of a module, or of the package alone if it is one of this package's."""
    top = str(module).partition(".")[0]
    return top if top in _PACKAGES else str(module)


def _left_out(kind: type, name: str) -> bool:
    """Return whether an attribute of a class's objects is a cache, ``_undigested``, or a field with ``compare=False``."""
    field = getattr(kind, "__dataclass_fields__", {}).get(name)
    cached = isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)
    compared = name not in getattr(kind, "_undigested", ()) and (not isinstance(field, dataclasses.Field) or field.compare)
    return cached or not compared


def _counts(name: str, value: object) -> bool:
    """Return whether an entry of a class's namespace is code or a user's value, not Python's own bookkeeping."""
    own = not name.startswith("__") and name != "_abc_impl"
    return isinstance(value, _MADE) or (own and not isinstance(value, MemberDescriptorType | GetSetDescriptorType))


def _function(value: object) -> object:
    """Return the functions behind a method or a property; other values as they are."""
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    if isinstance(value, functools.cached_property):
        return value.func
    return value.__func__ if isinstance(value, classmethod | staticmethod) else value


def _content(cell: CellType) -> object:
    return None if cell == CellType() else cell.cell_contents  # an empty one is assigned later


def _global_names(code: CodeType) -> set[str]:
    """Return the names of globals that code, and functions inside it, read but do not assign."""
    steps = list(dis.get_instructions(code))
    found = {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    found.update(*(_global_names(part) for part in code.co_consts if isinstance(part, CodeType)))
    return found - {step.argval for step in steps if step.opname == "STORE_GLOBAL"}
