"""Ranks that begin together: what is refused on one is refused on all, and what differs is named."""

import re
from typing import Any

from consensus.engines.ranks import Ranks


def agree(ranks: Ranks, error: Exception | None, settings: dict[str, Any]) -> None:
    """Compare what all ranks have come to.

    Parameters
    ----------
    ranks : Ranks
    error : Exception or None
        What was refused here.
    settings : dict
        What must be the same on all ranks, by name, to be compared as it prints.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        On all ranks: their common error; or one that tells which ranks refused what; or which settings differ.
    """
    trouble = None if error is None else (isinstance(error, TypeError), isinstance(error, ValueError), _said(error))
    # Objects without a text of their own print their address, another one on every rank.
    texts = {name: re.sub(r" at 0x[0-9a-fA-F]+", "", str(value)) for name, value in settings.items()}
    everyone = ranks.allgather((trouble, texts))
    troubles = [trouble for trouble, _ in everyone]
    if any(troubles):
        if error is not None and len(set(troubles)) == 1:
            raise error
        wrong_type, wrong_value, _ = next(filter(None, troubles))
        kind = TypeError if wrong_type else ValueError if wrong_value else RuntimeError
        raise kind(_by_rank([trouble and trouble[2] for trouble in troubles])) from error
    columns = {name: [theirs.get(name) for _, theirs in everyone] for name in settings}
    differing = "; ".join(f"{name}: {_by_rank(values)}" for name, values in columns.items() if len(set(values)) > 1)
    if differing:
        raise ValueError(f"all ranks must call consensus.solve with the same arguments; they differ in {differing}")


def _said(error):
    plain = type(error) in (TypeError, ValueError)
    return str(error) if plain else f"{type(error).__name__}: {error}"


def _by_rank(texts):
    """One text of what differs between ranks; None is left out."""
    ranks = {}
    for rank, text in enumerate(texts):
        if text is not None:
            ranks.setdefault(text, []).append(rank)
    parts = []
    for text, who in ranks.items():
        few = ", ".join(map(str, who[:5])) + (f" and {len(who) - 5} more" if len(who) > 5 else "")
        parts.append(f"{text} on rank{'s' * (len(who) > 1)} {few} of {len(texts)}")
    return ", ".join(parts)
