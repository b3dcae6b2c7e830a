"""Optional methods of losses, by which models compute gradients faster."""

from collections.abc import Callable
from typing import Any


def method_of(loss: object, name: str, *others: str) -> Callable[..., Any] | None:
    """Return the loss's method ``name`` if it was defined together with the methods ``others``, on which it depends.

    None if the loss lacks the method, or a subclass has overridden some of the others but not this one.
    """

    def owner(method: str) -> type | None:
        return next((kind for kind in type(loss).__mro__ if method in vars(kind)), None)

    defined = owner(name) is not None and all(owner(name) is owner(other) for other in others)
    return getattr(loss, name) if defined else None
