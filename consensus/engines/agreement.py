"""Ranks that begin together: an error on one is an error on all, and settings that differ are named."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from consensus.engines.ranks import Ranks

_OWN = "told_here_alone"
_ELSEWHERE = "what it calls consensus.solve with is rejected, and its own process says why,"


@contextmanager
def told_here_alone(owns: bool) -> Iterator[None]:
    """Mark the errors inside if this rank ``owns`` its data: their texts may show some, and do not go to other ranks."""
    try:
        yield
    except Exception as error:
        if owns:
            setattr(error, _OWN, True)
        raise


def agree(ranks: Ranks, error: Exception | None, settings: dict[str, object]) -> None:
    """Raise on all ranks what one of them raised, and reject settings that differ, whose texts are compared.

    All ranks raise their common error, or one that names the ranks of each error, or the settings that differ. An error that
    is :func:`told_here_alone` is raised where it is; others hear that there is one.
    """
    own = error is not None and getattr(error, _OWN, False)
    said = None if error is None else _ELSEWHERE if own else _text(error)
    mine = None if error is None else (isinstance(error, TypeError), isinstance(error, ValueError), said)
    # Objects without a text of their own print their address, another one on every rank.
    texts = {name: re.sub(r" at 0x[0-9a-fA-F]+", "", str(value)) for name, value in settings.items()}
    everyone = ranks.allgather((mine, texts))
    errors = [theirs for theirs, _ in everyone]
    if any(errors):
        if error is not None and (own or len(set(errors)) == 1):
            raise error
        wrong_type, wrong_value, _ = next(filter(None, errors))
        kind = TypeError if wrong_type else ValueError if wrong_value else RuntimeError
        raise kind(_by_rank([theirs and theirs[2] for theirs in errors])) from error
    common = [name for name in settings if all(name in theirs for _, theirs in everyone)]
    columns = {name: [theirs[name] for _, theirs in everyone] for name in common}
    differing = "; ".join(f"{name}: {_by_rank(values)}" for name, values in columns.items() if len(set(values)) > 1)
    if differing:
        raise ValueError(f"all ranks must call consensus.solve with the same arguments; they differ in {differing}")


def _text(error: Exception) -> str:
    plain = type(error) in (TypeError, ValueError)
    return str(error) if plain else f"{type(error).__name__}: {error}"


def _by_rank(texts: Sequence[str | None]) -> str:
    """Return the different texts, each with its ranks; None is left out."""
    ranks: dict[str, list[int]] = {}
    for rank, text in enumerate(texts):
        if text is not None:
            ranks.setdefault(text, []).append(rank)
    parts = []
    for text, who in ranks.items():
        few = ", ".join(map(str, who[:5])) + (f" and {len(who) - 5} more" if len(who) > 5 else "")
        parts.append(f"{text} on rank{'s' * (len(who) > 1)} {few} of {len(texts)}")
    return ", ".join(parts)
