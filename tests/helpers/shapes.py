"""Checks, by beartype, of the array shapes that protocols state as jaxtyping annotations."""

import sys
import typing

import jaxtyping
from beartype import beartype


def checked(stated, function):
    """Return `function` with a check of its result against the shape and type in the signature of `stated`."""
    names = {**vars(jaxtyping), **vars(sys.modules[stated.__module__])}  # the packages import jaxtyping for type checkers only
    hint = typing.get_type_hints(stated, names)["return"]

    def call(*arguments):
        return function(*arguments)

    call.__annotations__ = {"return": hint}
    return jaxtyping.jaxtyped(call, typechecker=beartype)
