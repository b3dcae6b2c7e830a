"""Whether a solver does what engines, checkpoints and users expect of it."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import consensus
import topologies
from consensus import _checks
from consensus.communication import flatten
from consensus.compression import NoCompression
from consensus.engines import Engine, StackedNetwork
from consensus.problems import BaseProblem
from consensus.solvers import Solver
from consensus.solvers.needs import needs_of
from consensus.testing.cases import default_network, default_problem, directed_graph
from consensus.testing.laws import Laws, Report, constant
from consensus.testing.threads import Threads
from topologies.schedules import ScheduleLike


def check_solver(
    solver: Solver,
    problem: BaseProblem | None = None,
    network: ScheduleLike | None = None,
    *,
    rounds: int = 6,
    engines: Sequence[str | Engine] = (),
    double: Collection[str] = (),
    seed: int = 0,
) -> Report:
    """Check a solver: blocks of agents come to the bits of all agents together, runs are resumed, needs and counts are true.

    Parameters
    ----------
    solver : Solver
        The solver to be checked.
    problem : Problem, optional
        By default least squares on unequal shards of 7 agents, with a small ``L2`` unless the solver takes none.
    network : schedule, optional
        By default a static graph with the kind of weights that ``solver.needs`` asks for.
    rounds : int
        How long runs are, at least 2.
    engines : sequence of engines or of their names
        Compared with one process, beside two and three blocks of agents on threads: such as
        ``[consensus.engines.Processes(2)]``.
    double : collection of str
        Fields of the state that stay in float64 where the problem is in float32, by their names in
        :func:`consensus.communication.flatten`; none by default.
    seed : int
        Seed of data and start.

    Returns
    -------
    Report
        The laws that hold, with the largest error of each.

    Raises
    ------
    AssertionError
        If a law does not hold: the message has the solver, the law and the numbers.

    Examples
    --------
    >>> from consensus.solvers import EXTRA
    >>> from consensus.testing import check_solver
    >>> report = check_solver(EXTRA(0.05))
    >>> report.errors["blocks of agents on threads come to the same bits"]
    0.0
    """
    _checks.solver(solver)
    if not isinstance(engines, list | tuple):
        raise TypeError(f"engines must be a list of engines or of their names; got {_checks.shown(engines)}")
    rounds, network = _checks.count("rounds", rounds, least=2), network or default_network(solver)
    laws, needs, problem = Laws(solver), needs_of(solver), problem or default_problem(solver, seed)
    _settings(laws, solver)
    rng = np.random.default_rng(seed)
    start = 0.3 * rng.standard_normal((problem.agents, problem.parameters))
    start = start[0] if needs.tree else start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what theory asks for is not what is checked
        _refusals(laws, solver, problem, network)
        _states(laws, solver, problem, network, np.broadcast_to(start, (problem.agents, problem.parameters)), rounds)
        if hasattr(problem, "shards"):  # functions of a user's own are in float64
            _single(laws, solver, problem, network, start, rounds, set(double))
        options: dict[str, Any] = {"rounds": rounds, "start": start}
        whole = consensus.solve(problem, network, solver, **options)
        copy = laws.copied(solver)
        _equal(laws, "a copy by cloudpickle comes to the same bits", consensus.solve(problem, network, copy, **options), whole)
        for engine in (Threads(2), Threads(3), *engines):
            law = "blocks of agents on threads" if isinstance(engine, Threads) else f"agents on {engine}"
            found = consensus.solve(problem, network, solver, engine=engine, **options)
            _equal(laws, f"{law} come to the same bits", found, whole)
        _resumed(laws, solver, problem, network, options, whole)
    _counts(laws, solver, problem, network, whole)
    return laws.report


def _settings(laws: Laws, solver: Any) -> None:
    """Check that settings are the fields of a frozen dataclass, which make the solver again."""
    law = "settings are the fields of a frozen dataclass"
    laws.true(law, dataclasses.is_dataclass(solver), f"{type(solver).__name__} is not a dataclass")
    laws.true(law, type(solver).__dataclass_params__.frozen, f"{type(solver).__name__} is not frozen")
    again = dataclasses.replace(solver)
    laws.true("dataclasses.replace gives an equal solver", repr(again) == repr(solver), f"found {again!r}")
    if "<" not in repr(solver):  # a function of a user's own prints as <function>
        names = {name: getattr(consensus, name) for name in dir(consensus) if not name.startswith("_")}
        for room in ("solvers", "step_sizes", "surrogates", "local", "compression", "robust"):
            names |= vars(names[room])
        back = eval(repr(solver), names | vars(sys.modules[type(solver).__module__]))
        laws.true("eval(repr(solver)) gives an equal solver", repr(back) == repr(solver), f"found {back!r}")


def _refusals(laws: Laws, solver: Solver, problem: Any, network: ScheduleLike) -> None:
    """Check that unmet needs are rejected before any work, by the solver's name."""
    needs, name = needs_of(solver), type(solver).__name__

    def run(problem: BaseProblem, schedule: ScheduleLike) -> None:
        consensus.solve(problem, schedule, solver, rounds=1)

    if hasattr(problem, "shards"):
        rough = consensus.Problem(problem.model, problem.loss, problem.shards, consensus.L1(0.1), problem.reduction)
        if needs.regularizer in ("smooth", "none"):
            laws.refused("a regularizer that is not smooth is refused", lambda: run(rough, network), name, "regularizer")
            work = rough.work.gradients
            laws.true("what is refused is refused before any work", work == 0, f"{work} gradients were computed")
        else:
            law = "every regularizer is taken, as needs say"
            try:
                run(rough, network)
            except (TypeError, ValueError) as error:
                laws.fail(law, f"L1(0.1) is refused: {error}")
    if needs.model:
        bare = consensus.Problem.from_functions(
            lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=network.agents, parameters=problem.parameters
        )
        laws.refused("costs without a model are refused", lambda: run(bare, network), name, "model")
    wrong: dict[str, Any] = {
        "column stochastic": topologies.pull,
        "row stochastic": topologies.push,
        "doubly stochastic": topologies.push,
    }
    directed = topologies.Static(directed_graph(network.agents), weights=wrong.get(needs.mixing, topologies.sinkhorn))
    laws.refused("mixing matrices of another kind are refused", lambda: run(problem, directed), name)


def _trajectory(
    laws: Laws, solver: Solver, problem: BaseProblem, network: ScheduleLike, w: np.ndarray, rounds: int
) -> Iterator[tuple[Any, dict[str, Any], dict[str, Any]]]:
    """Yield each state, its fields by name, and for the first one the next state by a separate call; arrays are read-only."""
    ready = solver.prepared(problem, network)
    edges = ready.edges(network)
    state = ready.init(problem, constant(w.astype(problem.dtype)))
    for n in range(rounds + 1):
        fields = flatten(state)
        for value in fields.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        try:
            again = flatten(ready.step(problem, StackedNetwork(edges, problem.dtype), state)) if n == 0 else {}
            yield state, fields, again
            state = ready.step(problem, StackedNetwork(edges, problem.dtype), state) if n < rounds else None
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            laws.fail("a step leaves the arrays of its state as they are", f"in round {n}: {error}")


def _states(laws: Laws, solver: Solver, problem: BaseProblem, network: ScheduleLike, w: np.ndarray, rounds: int) -> None:
    """Check that states are NamedTuples of round, w and arrays of fixed shapes; that a step depends on the state alone."""
    first: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for n, (state, fields, again) in enumerate(_trajectory(laws, solver, problem, network, w, rounds)):
        names = getattr(state, "_fields", ())
        laws.true("a state is a NamedTuple that begins with round and w", names[:2] == ("round", "w"), f"found {names}")
        laws.true("round is the number of rounds done", state.round == n, f"found {state.round!r} after {n} rounds")
        first = first or fields
        law = "all states have the fields and shapes of the first"
        shapes = {name: np.shape(value) for name, value in fields.items()}
        laws.true(law, shapes == {name: np.shape(value) for name, value in first.items()}, f"found {shapes} in round {n}")
        for name, value in after.items():
            laws.same("a step depends on the state alone", fields[name], value)
        after = again


def _single(laws: Laws, solver: Any, problem: Any, network: ScheduleLike, start: Any, rounds: int, double: Any) -> None:
    """Check that all arrays of states are in float32 on float32 data, also if step sizes are NumPy doubles."""
    arrays = {name: getattr(problem.shards, name).astype(np.float32) for name in ("features", "targets", "weights")}
    shards = dataclasses.replace(problem.shards, **arrays)
    single = consensus.Problem(problem.model, problem.loss, shards, problem.regularizer, problem.reduction)
    w = np.broadcast_to(start, (problem.agents, problem.parameters))
    step = getattr(solver.prepared(single, network), "step_size", None)
    size = step if callable(step) else lambda n: step
    ways = [solver] if step is None else [solver, dataclasses.replace(solver, step_size=lambda n: np.float64(size(n)))]
    for way in ways:
        for n, (_, fields, _) in enumerate(_trajectory(laws, way, single, network, w, rounds)):
            wide = {name for name, value in fields.items() if getattr(value, "dtype", None) == np.float64 and np.ndim(value)}
            found = f"in round {n} {sorted(wide - double)} are in float64"
            laws.true("states of float32 problems are in float32", wide <= double, found)


def _equal(laws: Laws, law: str, found: Any, wanted: Any) -> None:
    """Compare the bits of iterates, counts and histories, but for seconds."""
    laws.same(law, found.w, wanted.w)
    laws.true(law, list(found.history) == list(wanted.history), f"found columns {list(found.history)}")
    for name in set(wanted.history) - {"seconds"}:
        laws.same(law, found.history[name], wanted.history[name])


def _resumed(laws: Laws, solver: Solver, problem: Any, network: Any, options: dict[str, Any], whole: Any) -> None:
    """Compare runs resumed from a checkpoint, on another engine, too, with one that never stopped."""
    with tempfile.TemporaryDirectory() as folder:
        path, half = Path(folder) / "run.ckpt", {**options, "rounds": options["rounds"] // 2}
        for engine, other in (("stacked", Threads(2)), (Threads(2), "stacked")):
            consensus.solve(problem, network, solver, checkpoint=path, engine=engine, **half)
            found = consensus.solve(problem, network, solver, resume=path, engine=other, **options)
            _equal(laws, "a resumed run is the run that never stopped", found, whole)


def _counts(laws: Laws, solver: Solver, problem: BaseProblem, network: ScheduleLike, whole: Any) -> None:
    """Compare exchanges, messages and numbers with those that the solver declares."""
    history, rounds, a_round = whole.history, whole.rounds, solver.exchanges_a_round
    if needs_of(solver).counts_exchanges:
        laws.true("who finds its number of exchanges says no number", a_round is None, f"exchanges_a_round is {a_round!r}")
        return
    if a_round is None or a_round != int(a_round):
        return

    def equal(law: str, name: str, wanted: float) -> None:
        laws.true(law, history[name][-1] == wanted, f"found {history[name][-1]:.0f} instead of {wanted:.0f}")

    edges = solver.prepared(problem, network).edges(network)
    matrices = [edges.weights(edges.key(n)) for n in range(rounds)]
    links = sum(matrix.nnz - np.count_nonzero(matrix.diagonal()) for matrix in matrices)
    equal("exchanges are exchanges_a_round", "exchanges", rounds * int(a_round))
    equal("messages are edges times exchanges", "messages", int(links * a_round))
    packed = hasattr(solver, "rank") or not isinstance(getattr(solver, "compressor", NoCompression()), NoCompression)
    if packed or not solver.sends:
        return
    numbers = sum(1 if name == "mass" else problem.parameters for name in solver.sends.split(", "))
    times = getattr(solver, "exchanges", 1)  # of a solver inside, as Gossip has them
    equal("floats are the vectors that it sends", "floats", int(links * numbers * times))
