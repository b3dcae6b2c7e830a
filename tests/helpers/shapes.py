"""Checks, by beartype, of the array shapes that protocols state as jaxtyping annotations."""

import inspect
import sys
import types
import typing

import jaxtyping
from beartype.door import is_bearable


def checked(stated, function):
    """Return `function` with a check of its arguments and result against the shapes and types in the signature of `stated`."""
    signature, hints = inspect.signature(stated), _hints(stated)
    unbound = [None] * ("self" in signature.parameters)

    def call(*arguments, **keywords):
        result = function(*arguments, **keywords)
        values = []
        for name, value in signature.bind(*unbound, *arguments, **keywords).arguments.items():
            several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
            values += [(name, one) for one in value] if several else [(name, value)]
        _check([*values, ("return", result)], hints)
        return result

    return call


def checked_fields(record):
    """Return a NamedTuple whose fields have the shapes and types that its class states."""
    _check(record._asdict().items(), _hints(type(record)))
    return record


def _hints(stated):
    module = {name: _testable(value) for name, value in vars(sys.modules[stated.__module__]).items()}
    names = {**vars(jaxtyping), **module}  # the packages import jaxtyping for type checkers only
    return {name: hint for name, hint in typing.get_type_hints(stated, names).items() if _has_shape(hint)}


def _testable(value):
    """Return a protocol in a form that an object can be tested for, and anything else as it is."""
    if value is typing.Protocol or not (isinstance(value, type) and getattr(value, "_is_protocol", False)):
        return value
    return typing.runtime_checkable(types.new_class(value.__name__, (value, typing.Protocol)))


def _has_shape(hint):
    whole = isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)
    return whole or any(map(_has_shape, typing.get_args(hint)))


def _check(values, hints):
    with jaxtyping.jaxtyped("context"):  # a name stands for the same length in all of them
        for name, value in values:
            if name in hints and not _fits(value, hints[name]):
                found = f"{type(value).__name__} of shape {getattr(value, 'shape', None)}"
                raise jaxtyping.TypeCheckError(f"{name} must be {hints[name]}; got {found}")


def _fits(value, hint):
    if typing.get_origin(hint) is tuple and typing.get_args(hint)[1:] == (...,):  # of which beartype looks at one entry
        return isinstance(value, tuple) and all(_fits(one, typing.get_args(hint)[0]) for one in value)
    return is_bearable(value, hint)
