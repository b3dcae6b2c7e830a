"""Problems whose model has directions in place of gradients, as direct feedback alignment."""

import copy
from typing import Any, TypeVar

from consensus.problems.cache import Cache

P = TypeVar("P")


def exact(problem: P) -> P:
    """Return a problem with the costs' own gradients: this one, or one with its model's ``exact`` if there is one."""
    own = getattr(getattr(problem, "model", None), "exact", None)
    if own is None:
        return problem
    found: Any = copy.copy(problem)
    found.model, found.cache = own, Cache()
    return found  # type: ignore[no-any-return]


def check_exact(who: str, problem: object) -> None:
    """Raise ``TypeError`` if a model has directions in place of gradients, which ``who`` cannot take."""
    model = getattr(problem, "model", None)
    if hasattr(model, "exact"):
        raise TypeError(
            f"{who} needs the gradients of the costs, and {model} has other directions in their place: take a solver of "
            "gradients alone, such as GradientTracking(0.1), or train its .exact"
        )
