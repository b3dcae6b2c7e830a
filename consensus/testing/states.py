"""The laws of a solver's states and steps, for :func:`consensus.testing.check_solver`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

import consensus
from consensus import _checks
from consensus.communication import flatten
from consensus.engines import StackedNetwork
from consensus.problems import BaseProblem
from consensus.solvers import Solver
from consensus.solvers.needs import needs_of
from consensus.testing.laws import Laws, constant
from topologies.schedules import ScheduleLike

_ROUNDING = 1e-14


class _Asked:
    """A schedule that remembers which rounds it was asked for."""

    def __init__(self, schedule: ScheduleLike) -> None:
        self.schedule, self.rounds = schedule, set[int]()

    def __getattr__(self, name: str) -> Any:  # whatever the schedule has
        return getattr(self.schedule, name)

    def key(self, round: int) -> Hashable:
        self.rounds.add(round)
        return self.schedule.key(round)


def _fields(laws: Laws, state: Any) -> dict[str, Any]:
    """Return a state's fields by name."""
    names = getattr(state, "_fields", ())
    found = f"found {names or type(state).__name__}"
    laws.true("a state is a NamedTuple that begins with round and w", names[:2] == ("round", "w"), found)
    return flatten(state)


def _trajectory(
    laws: Laws, solver: Solver, problem: BaseProblem, network: ScheduleLike, w: np.ndarray, rounds: int
) -> Iterator[tuple[Any, dict[str, Any], dict[str, Any]]]:
    """Yield each state, its fields by name, and for the first two the next state by a separate call; arrays are read-only."""
    ready = solver.prepared(problem, network)
    edges = ready.edges(network)
    state, met = ready.init(problem, constant(w.astype(problem.dtype))), set[int]()
    for n in range(rounds + 1):
        fields = _fields(laws, state)
        for value in fields.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        asked, law = _Asked(edges), "a step leaves the arrays of its state as they are"
        with laws.unwritten(f"{law}, in round {n}"):
            again = _fields(laws, ready.step(problem, StackedNetwork(edges, problem.dtype), state)) if n < 2 else {}
        yield state, fields, again
        if n < rounds:
            with laws.unwritten(f"{law}, in round {n}"):
                state = ready.step(problem, StackedNetwork(asked, problem.dtype), state)
            old, needs = asked.rounds & met, needs_of(solver)
            if not needs.static and not needs.tree:  # elsewhere all rounds have one matrix
                law = "no two steps meet the matrix of one round: network.mix(state.round, ...)"
                found = f"the step of round {n} asks for the matrix of round {min(old, default=n)}, as an earlier one did"
                laws.true(law, not old, found)
            met |= asked.rounds


def states(
    laws: Laws,
    solver: Solver,
    problem: BaseProblem,
    network: ScheduleLike,
    w: np.ndarray,
    rounds: int,
    conserved: Callable[[Any], np.ndarray] | None,
) -> None:
    """Check that states have fixed fields and shapes; that a step depends on the state alone, and conserves what it should."""
    first: dict[str, Any] = {}
    after: dict[str, Any] = {}
    kept: np.ndarray | None = None
    for n, (state, fields, again) in enumerate(_trajectory(laws, solver, problem, network, w, rounds)):
        laws.true("round is the number of rounds done", state.round == n, f"found {state.round!r} after {n} rounds")
        first = first or fields
        law = "all states have the fields and shapes of the first"
        shapes = {name: np.shape(value) for name, value in fields.items()}
        laws.true(law, shapes == {name: np.shape(value) for name, value in first.items()}, f"found {shapes} in round {n}")
        for name, value in after.items():
            laws.same("a step depends on the state alone", fields[name], value)
        after = again
        if conserved is not None:
            rows = _checks.floats("what conserved returns", conserved(state))
            if rows.shape[:1] != (problem.agents,):
                raise ValueError(f"conserved must return an array ({problem.agents}, ...); got shape {rows.shape}")
            kept = rows.sum(axis=0) if kept is None else kept
            scale = max(1.0, float(np.abs(rows).sum(axis=0).max()))
            law = "the sum over agents of what is conserved stays that of the start"
            laws.close(law, rows.sum(axis=0) / scale, kept / scale, _ROUNDING * problem.agents)


def single(laws: Laws, solver: Any, problem: Any, network: ScheduleLike, start: Any, rounds: int, double: Any) -> None:
    """Check that all arrays of states are in float32 on float32 data, also if step sizes are NumPy doubles."""
    arrays = {name: getattr(problem.shards, name).astype(np.float32) for name in ("features", "targets", "weights")}
    shards = dataclasses.replace(problem.shards, **arrays)
    problem = consensus.Problem(problem.model, problem.loss, shards, problem.regularizer, problem.reduction)
    w = np.broadcast_to(start, (problem.agents, problem.parameters))
    step = getattr(solver.prepared(problem, network), "step_size", None)
    size = step if callable(step) else lambda n: step
    ways = [solver] if step is None else [solver, dataclasses.replace(solver, step_size=lambda n: np.float64(size(n)))]
    for way in ways:
        try:
            found_states = [fields for _, fields, _ in _trajectory(laws, way, problem, network, w, rounds)]
        except (TypeError, ValueError) as error:
            if way is solver:
                raise
            value = "the step of a round is consensus.step_sizes.value_at(self.step_size, round)"
            laws.fail("step_size is a number or a rule", f"with a rule there is a {type(error).__name__}: {error}; {value}")
        for n, fields in enumerate(found_states):
            wide = {name for name, value in fields.items() if getattr(value, "dtype", None) == np.float64 and np.ndim(value)}
            found = f"in round {n} {sorted(wide - double)} are in float64"
            laws.true("states of float32 problems are in float32", wide <= double, found)
