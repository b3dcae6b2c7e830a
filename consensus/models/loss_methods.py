"""Optional methods of losses, by which models compute gradients faster."""

from collections.abc import Callable
from typing import Any


def method_of(loss: object, name: str, *others: str) -> Callable[..., Any] | None:
    """Return the loss's method ``name`` if it was defined together with the methods ``others``, on which it depends.

    Parameters
    ----------
    loss : Loss
        Any loss.
    name : str
        Name of an optional method.
    *others : str
        Names of methods that must not be overridden without overriding ``name``, too.

    Returns
    -------
    callable or None
        None if the loss lacks the method, or a subclass has overridden only some of them.
    """

    def owner(method: str) -> type | None:
        return next((kind for kind in type(loss).__mro__ if method in vars(kind)), None)

    defined = owner(name) is not None and all(owner(name) is owner(other) for other in others)
    return getattr(loss, name) if defined else None
