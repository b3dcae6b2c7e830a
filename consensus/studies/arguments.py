"""The arguments of a study, checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from consensus import _checks
from consensus.solvers import Solver
from consensus.studies.grid import Grid, plain

_COLUMNS = "solver setting for rounds ended file value missed ratio low high p rate straight fits bound best inside tried runs"


def cases_over(case: Callable[..., Any], over: Mapping[str, Sequence[Any]] | None) -> dict[str, list[Any]]:
    """Return the values by name, checked against what the case takes."""
    if over is not None and not isinstance(over, Mapping):
        raise TypeError(
            f"over must map names to lists of values, such as {{'graph': ['ring', 'star']}}; got {_checks.shown(over)}"
        )
    found: dict[str, list[Any]] = {}
    for name, values in (over or {}).items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
            raise ValueError(f"over[{name!r}] must be a list of values, such as ['ring', 'star']; got {_checks.shown(values)}")
        if name in _COLUMNS.split():
            raise ValueError(
                f"over must not have the name {name!r}, which is a column of the tables: call it otherwise, in case, too"
            )
        texts = [plain(value) for value in values]
        if len(set(texts)) < len(texts):
            raise ValueError(f"over[{name!r}] must have values that differ, also as text; got {texts}")
        found[name] = list(values)
    try:
        inspect.signature(case).bind(0, **dict.fromkeys(found))
    except TypeError as error:
        raise TypeError(f"case must take a seed and {', '.join(found) or 'nothing else'}, as over says: {error}") from None
    except ValueError:  # a builtin without a signature
        pass
    return found


def seeds_of(name: str, seeds: int | Sequence[int], first: int, least: int) -> list[int]:
    """Return the seeds, of which a number stands for so many from ``first`` on."""
    seeds = seeds.tolist() if isinstance(seeds, np.ndarray) else seeds
    if not isinstance(seeds, Sequence):
        return list(range(first, first + _checks.count(name, seeds, least=least)))
    found = [_checks.count(f"{name}[{place}]", seed, least=0) for place, seed in enumerate(seeds)]
    if len(found) < least:
        raise ValueError(f"{name} must have a seed at least; got {seeds!r}")
    if repeated := sorted({seed for seed in found if found.count(seed) > 1}):
        raise ValueError(f"{name} must differ: a seed twice would count twice; got {repeated} more than once")
    return found


def solvers_of(solvers: Mapping[str, Solver | Grid]) -> dict[str, Solver | Grid]:
    """Return the solvers by name, with every point of their grids made once."""
    if not isinstance(solvers, Mapping) or not solvers:
        raise TypeError(
            f"solvers must map names to solvers or grids, such as {{'EXTRA': EXTRA()}}; got {_checks.shown(solvers)}"
        )
    for label, solver in solvers.items():
        if not isinstance(label, str) or not label.strip():
            raise TypeError(f"the names of solvers must be texts; got {_checks.shown(label)}")
        if isinstance(solver, Grid):
            for point in solver.points():
                try:
                    _checks.solver(solver.solver(point), f"what solvers[{label!r}] makes of {solver.shown(point)}")
                except Exception as error:
                    raise type(error)(f"solvers[{label!r}] cannot be made of {solver.shown(point)}: {error}") from error
        else:
            _checks.solver(solver, f"solvers[{label!r}]")
    return dict(solvers)
