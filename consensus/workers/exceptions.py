"""Exceptions on their way from one process to another."""

from types import FunctionType
from typing import Any

import cloudpickle


def parts_of(error: BaseException) -> Any:  # noqa: ANN401  the exception or a tuple
    """Return the parts of which :func:`restored` makes the exception in another process; None if it cannot be sent."""
    # An exception is pickled as a call with its ``args``, which its class's constructor need not take.
    own = isinstance(type(error).__init__, FunctionType)
    parts = (type(error), error.args, error.__dict__) if own else error
    try:
        restored(cloudpickle.loads(cloudpickle.dumps(parts)))
    except Exception:
        return None
    return parts


def restored(parts: Any) -> BaseException:  # noqa: ANN401
    """Return the exception that :func:`parts_of` took apart."""
    if isinstance(parts, BaseException):
        return parts
    kind, args, attributes = parts
    error: BaseException = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error
