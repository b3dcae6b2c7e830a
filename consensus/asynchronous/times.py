"""Durations of computations and messages in a simulation, and losses of messages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from consensus import _checks

BLOCK = 256  # numbers drawn at once of an agent


class Distribution(Protocol):
    """A frozen distribution of :mod:`scipy.stats`."""

    def rvs(self, size: int, random_state: np.random.Generator) -> np.ndarray:
        """Draw numbers."""


One: TypeAlias = "float | tuple[float, float] | Distribution | np.ndarray"  # an array is a trace, which is repeated
Times: TypeAlias = "One | Sequence[One] | np.ndarray | str | os.PathLike[str]"
Given: TypeAlias = Any  # by a user
_WANTED = "a number, a pair (low, high), a distribution of scipy.stats"


def draw(spec: One, rng: np.random.Generator, first: int, size: int) -> np.ndarray:
    """Return ``size`` numbers of a specification; those of a trace begin at number ``first``."""
    if isinstance(spec, float):
        return np.full(size, spec)
    if isinstance(spec, tuple):
        return rng.uniform(*spec, size)
    if isinstance(spec, np.ndarray):
        return spec[np.arange(first, first + size) % len(spec)]
    return np.asarray(spec.rvs(size=size, random_state=rng), float)


def of_agents(name: str, times: Times, agents: int) -> list[One]:  # whatever a user gives
    """Return the specification of each agent.

    ``times`` is one for all, a list or array with one for each, or a CSV file with the columns ``agent`` and ``seconds``.
    """
    if isinstance(times, (str, os.PathLike)):
        traces = _traces(name, times, ["agent"])
        return [_trace(name, times, traces, (i,)) for i in range(agents)]
    if isinstance(times, (list, np.ndarray)):
        if len(times) != agents:
            raise ValueError(f"{name} must have an entry for each of the {agents} agents; got {len(times)}")
        return [_one(f"{name}[{i}]", value) for i, value in enumerate(times)]
    return [_one(name, times)] * agents


def of_arcs(name: str, times: Times, agents: int, arcs: Sequence[tuple[int, int]]) -> list[One]:
    """Return the specification of each arc (source, target).

    ``times`` is one for all, an array (agents, agents) of numbers with the entry (source, target), or a CSV file with the
    columns ``source``, ``target`` and ``seconds``.
    """
    if isinstance(times, (str, os.PathLike)):
        traces = _traces(name, times, ["source", "target"])
        return [_trace(name, times, traces, arc) for arc in arcs]
    if isinstance(times, (list, np.ndarray)):
        matrix = _checks.floats(name, times)
        if matrix.shape != (agents, agents):
            raise ValueError(f"{name} must be an array (source, target) of shape {(agents, agents)}; got {matrix.shape}")
        return [_one(f"{name}[{arc[0]}, {arc[1]}]", matrix[arc]) for arc in arcs]
    return [_one(name, times)] * len(arcs)


def _one(name: str, value: Given) -> One:
    if isinstance(value, tuple):
        if len(value) != 2:
            raise ValueError(f"{name} must be {_WANTED}; got {_checks.shown(value)}")
        low = _checks.number(f"low of {name}", value[0], least=0)
        return low, _checks.number(f"high of {name}", value[1], least=low)
    if hasattr(value, "rvs"):
        low = float(value.support()[0])
        if not low >= 0:
            raise ValueError(f"{name} must be a distribution of numbers >= 0; {_checks.shown(value)} begins at {low:g}")
        found: One = value
        return found
    if isinstance(value, str) or not np.isscalar(value):
        raise TypeError(f"{name} must be {_WANTED}; got {_checks.shown(value)}")
    return _checks.number(name, value, least=0)


def _traces(name: str, path: str | os.PathLike[str], keys: list[str]) -> dict[tuple[int, ...], np.ndarray]:
    import pandas

    try:
        frame = pandas.read_csv(path, comment="#")
    except (OSError, ValueError) as error:
        kind = FileNotFoundError if isinstance(error, FileNotFoundError) else ValueError
        columns = ", ".join((*keys, "seconds"))
        raise kind(f"{name}: {path} must be a CSV file with the columns {columns} ({error})") from error
    missing = {*keys, "seconds"} - set(frame.columns)
    if missing:
        raise ValueError(f"{name}: {path} must have the columns {', '.join((*keys, 'seconds'))}; it lacks {sorted(missing)}")
    seconds = pandas.to_numeric(frame["seconds"], errors="coerce").to_numpy(float)
    if not (np.isfinite(seconds).all() and (seconds >= 0).all()):
        raise ValueError(f"{name}: the seconds in {path} must be numbers >= 0")
    groups = frame.groupby(keys, sort=False)["seconds"]
    return {key if isinstance(key, tuple) else (key,): group.to_numpy(float) for key, group in groups}


def _trace(
    name: str, path: str | os.PathLike[str], traces: dict[tuple[int, ...], np.ndarray], key: tuple[int, ...]
) -> np.ndarray:
    if key not in traces:
        what = f"agent {key[0]}" if len(key) == 1 else f"messages from agent {key[0]} to agent {key[1]}"
        raise ValueError(f"{name}: {path} has no row for {what}")
    return traces[key]


class Draws(NamedTuple):
    """Random draws for the wakes of one agent from number ``first`` on, as lists, because they are read one by one.

    Attributes
    ----------
    first : int
        The first wake.
    compute : list of float
        Seconds of each wake.
    delays : list of list of float
        Seconds of each wake's messages, one for each target.
    lost : list of list of bool
        Whether they are lost.
    partner : list of float
        Numbers between 0 and 1 by which a partner is chosen.
    """

    first: int
    compute: list[float]
    delays: list[list[float]]
    lost: list[list[bool]]
    partner: list[float]


def draws(seed: int, agent: int, number: int, compute: One, delays: Sequence[One], losses: Sequence[One]) -> Draws:
    """Return the block of draws in which an agent's wake ``number`` lies; it depends on nothing else."""
    first = number - number % BLOCK
    rng = np.random.default_rng([seed, agent, first // BLOCK])
    seconds = draw(compute, rng, first, BLOCK)
    if not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise ValueError(
            f"compute of agent {agent} must be finite seconds > 0; drawn were {seconds.min():g} to {seconds.max():g}"
        )
    waits = np.array([draw(spec, rng, first, BLOCK) for spec in delays]).reshape(len(delays), BLOCK)
    if not np.isfinite(waits).all():
        raise ValueError(f"delay of a message of agent {agent} must be finite: give loss= for messages that never arrive")
    chances = np.array([draw(spec, rng, first, BLOCK) for spec in losses]).reshape(len(losses), BLOCK)
    lost = rng.random(chances.shape) < chances
    return Draws(first, seconds.tolist(), waits.T.tolist(), lost.T.tolist(), rng.random(BLOCK).tolist())
