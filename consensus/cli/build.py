"""Objects out of tables of settings."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar

import topologies
from consensus import asynchronous, compression, directions, losses, regularizers, robust, solvers, step_sizes, surrogates
from consensus.cli.config import Config, ConfigError, Key, named

T = TypeVar("T")


def _public(kind: Callable[[Any], bool], *modules: ModuleType) -> dict[str, Any]:
    found = {name: getattr(module, name) for module in modules for name in module.__all__}
    return {name: thing for name, thing in found.items() if kind(thing) and not inspect.isabstract(thing)}


GRAPHS, WEIGHTS = _public(inspect.isfunction, topologies.graphs), _public(inspect.isfunction, topologies.weights)
SCHEDULES = _public(inspect.isclass, topologies.schedules)
LOSSES, REGULARIZERS = _public(inspect.isclass, losses), _public(inspect.isclass, regularizers)
SOLVERS = _public(inspect.isclass, solvers, surrogates, step_sizes, robust, compression, directions)  # and what they take
WITHOUT_ROUNDS = _public(lambda one: inspect.isclass(one) and issubclass(one, asynchronous.AsynchronousSolver), asynchronous)
SCHEDULES |= {"Temporal.from_csv": topologies.Temporal.from_csv, "Mobile.from_positions": topologies.Mobile.from_positions}
_FOREIGN = re.compile(r"(?P<module>(?P<package>[A-Za-z]\w*)(\.[A-Za-z]\w*)*):(?P<name>[A-Za-z]\w*)")
FUNCTIONS = ("weights",)  # arguments that are functions: their name is given, and they are not called


def make(config: Config, key: Key, names: Mapping[str, Callable[..., Any]], **known: Any) -> Any:  # noqa: ANN401
    """Make the object that the table at ``key`` describes.

    Its ``kind`` is one of ``names`` of classes and functions, its other keys are the arguments; tables among these are objects,
    too. A text alone is a ``kind`` without arguments. ``known`` values are passed to all that have an argument of that name. An
    unknown name, and arguments that are unknown, missing or rejected by the class, raise a ``ConfigError``.
    """
    found = config.at(key)
    settings = {"kind": found} if isinstance(found, str) else found
    if not isinstance(settings, dict) or "kind" not in settings:
        raise config.error(key, f'[{named(key)}] must be a kind, or a table with one, as {{kind = "..."}}; got {found!r}')
    kind = settings["kind"]
    if isinstance(kind, str) and ":" in kind:
        function = _foreign(config, (*key, "kind"), kind, names)
    else:
        config.one_of((*key, "kind"), kind, names, f"kind for [{named(key)}]")
        function = names[kind]
    parameters = inspect.signature(function).parameters
    given = {name: _value(config, (*key, name), names, known) for name in settings if name not in ("kind", "label")}
    stated = {name: one for name, one in parameters.items() if one.kind is not one.VAR_KEYWORD}
    for name in given if stated.keys() == parameters.keys() else ():
        config.one_of((*key, name), name, parameters, f"argument of {kind}")
    arguments = {name: value for name, value in known.items() if name in parameters} | given
    missing = [name for name, one in stated.items() if one.default is one.empty and name not in arguments]
    if missing:
        raise config.error(key, f"{kind} needs {' and '.join(missing)}")
    return attempt(config, key, function, **arguments)


def _foreign(config: Config, key: Key, kind: str, names: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Return the class of an allowed package that a ``kind`` names, as ``mypackage.module:Class``.

    It must be derived from a base class of those in ``names``: nothing else is called.
    """
    found = _FOREIGN.fullmatch(kind)
    if not found:
        raise config.error(key, f'a class of another package is named as "mypackage.module:Class"; got {kind!r}')
    module, package, name = found["module"], found["package"], found["name"]
    if package in sys.stdlib_module_names or package in ("consensus", "topologies"):
        raise config.error(key, f"{kind!r} must be a class of a package of yours; {package} is none")
    if package not in config.allow:
        raise config.error(key, f"{kind!r} would run code of {package}: if you trust it, give --allow {package}")
    if os.getcwd() not in sys.path:  # where Python puts the folder of the command itself
        sys.path.append(os.getcwd())
    try:
        thing = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise config.error(key, f"{module} cannot be imported: {error}") from error
    if not inspect.isclass(thing) or thing.__module__.partition(".")[0] != package:
        raise config.error(key, f"{kind!r} must be a class that {package} defines; got {thing!r}")
    known = {base for one in names.values() if inspect.isclass(one) for base in one.__mro__}
    if not any(base in known for base in thing.__mro__ if base.__module__.startswith(("consensus.", "topologies."))):
        raise config.error(key, f"{kind!r} must be derived from a base class of this package, as those of this table are")
    return thing


def attempt(config: Config, key: Key, function: Callable[..., T], /, *arguments: Any, **named: Any) -> T:  # noqa: ANN401
    """Call ``function(*arguments, **named)``; its errors become those of the line of the setting that they name."""
    try:
        return function(*arguments, **named)
    except ConfigError:
        raise
    except (TypeError, ValueError, ImportError, OSError, MemoryError) as error:
        raise config.error(_place(config, key, str(error)), error) from error


def _place(config: Config, key: Key, message: str) -> Key:
    """Return the key that ``message`` names: one in the table at ``key``, a setting of the run, or else ``key``."""
    table = config.at(key)
    if isinstance(table, dict):
        places = {found.start(): name for name in table if (found := re.search(rf"\b{re.escape(name)}\b", message))}
        if places:
            return (*key, places[min(places)])
    return next((("run", name) for name in config.at(("run",), {}) if message.startswith(f"{name} ")), key)


def _value(config: Config, key: Key, names: Mapping[str, Callable[..., Any]], known: Mapping[str, Any]) -> Any:  # noqa: ANN401
    value = config.at(key)
    if isinstance(value, dict):
        return make(config, key, names, **known)
    if isinstance(value, list):
        return [_value(config, (*key, index), names, known) for index in range(len(value))]
    if key[-1] in FUNCTIONS and isinstance(value, str):
        config.one_of(key, value, WEIGHTS, "rule of weights")
        return WEIGHTS[value]
    return value
