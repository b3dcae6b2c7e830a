"""Check of the laws of solvers that engines, checkpoints and users rely on."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import warnings
from collections.abc import Callable, Collection, Sequence, Set
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import consensus
import topologies
from consensus import _arguments, _checks
from consensus.compression import NoCompression
from consensus.engines import Engine
from consensus.frameworks.base import Framework
from consensus.problems import BaseProblem
from consensus.solvers import SharedBody, Solver
from consensus.solvers.needs import needs_of
from consensus.testing.cases import AGENTS, default_network, default_problem, directed_graph
from consensus.testing.laws import Laws, Report, parts
from consensus.testing.states import single, states
from consensus.testing.threads import Threads
from topologies.schedules import ScheduleLike


def check_solver(
    solver: Solver,
    problem: BaseProblem | None = None,
    network: ScheduleLike | nx.Graph | None = None,
    *,
    rounds: int = 6,
    engines: Sequence[str | Engine] = (),
    double: Collection[str] = (),
    conserved: Callable[[Any], np.ndarray] | None = None,
    tolerance: float | None = None,
    within: int = 5000,
    seed: int = 0,
) -> Report:
    """Check a solver: blocks of agents come to the bits of all agents together, runs are resumed, needs and counts are true.

    On problems with a model of PyTorch or JAX, which round by who shares a call, results agree to 1e-12, in float32 to 1e-5.

    Whether its equations are right shows in what it reaches and in what it conserves: give ``tolerance`` and ``conserved``.

    Parameters
    ----------
    solver : Solver
        The solver to be checked.
    problem : Problem, optional
        By default least squares on unequal shards, with a small ``L2`` unless the solver takes none; of 7 agents if no network
        is given.
    network : schedule or networkx.Graph, optional
        By default a static graph with the kind of weights that ``solver.needs`` asks for.
    rounds : int
        How long runs are, at least 2.
    engines : sequence of engines or of their names
        Compared with one process, beside two and three blocks of agents on threads: such as
        ``[consensus.engines.Processes(2)]``.
    double : collection of str
        Fields of the state that stay in float64 where the problem is in float32, by their names in
        :func:`consensus.communication.flatten`; none by default.
    conserved : callable, optional
        Function of a state that returns an array (agents, ...) whose sum over agents no round changes, such as
        ``lambda state: state.y - state.gradient`` of gradient tracking.
    tolerance : float, optional
        For exact methods: stationarity and disagreement, as :func:`consensus.solve` measures them, must come to this.
    within : int
        Rounds that the solver has for it.
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
    >>> from consensus.solvers import GradientTracking
    >>> from consensus.testing import check_solver
    >>> report = check_solver(
    ...     GradientTracking(0.05), tolerance=1e-8, conserved=lambda state: state.y - state.gradient)
    >>> report.errors["blocks of agents on threads come to the same bits"]
    0.0
    """
    _checks.solver(solver)
    if not isinstance(engines, list | tuple):
        raise TypeError(f"engines must be a list of engines or of their names; got {_checks.shown(engines)}")
    laws, needs, rounds = Laws(solver), needs_of(solver), _checks.count("rounds", rounds, least=2)
    within, rng = _checks.count("within", within), _checks.seed(seed)
    if tolerance is not None:
        tolerance = _checks.number("tolerance", tolerance, above=0)
    if not isinstance(double, list | tuple | Set) or not all(isinstance(name, str) for name in double):
        raise TypeError(f"double must be a list of names of fields; got {_checks.shown(double)}")
    if conserved is not None and not callable(conserved):
        raise TypeError(f"conserved must be a function of a state; got {_checks.shown(conserved)}")
    agents = AGENTS if problem is None else _checks.problem(problem).network_size
    network = default_network(solver, agents) if network is None else _arguments.schedule(network)
    problem = default_problem(solver, seed, network.agents) if problem is None else problem
    if network.agents != problem.network_size:
        raise ValueError(f"the network has {network.agents} agents, the problem {problem.network_size}: they must be the same")
    if isinstance(problem.model, Framework):
        laws.rounding = 1e-12 if problem.dtype == np.float64 else 1e-5
    _settings(laws, solver)
    start = 0.3 * rng.standard_normal((problem.agents, problem.parameters))
    start = start[0] if needs.tree else start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what theory asks for is not what is checked
        states(laws, solver, problem, network, np.broadcast_to(start, (problem.agents, problem.parameters)), rounds, conserved)
        _refusals(laws, solver, problem, network)
        if problem.shards is not None:  # functions of a user's own are in float64
            single(laws, solver, problem, network, start, rounds, set(double))
        options: dict[str, Any] = {"rounds": rounds, "start": start}
        whole = consensus.solve(problem, network, solver, **options)
        copy = laws.copied(solver)
        _equal(laws, "a copy by cloudpickle comes to the same bits", consensus.solve(problem, network, copy, **options), whole)
        for engine in (Threads(2), Threads(3), *engines):
            law = "blocks of agents on threads" if isinstance(engine, Threads) else f"agents on {engine}"
            found = consensus.solve(problem, network, solver, engine=engine, **options)
            _equal(laws, f"{law} come to the same bits", found, whole)
        _resumed(laws, solver, problem, network, options, whole)
        if tolerance is not None:
            _reaches(laws, solver, problem, network, start, tolerance, within)
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
        names = vars(np) | {name: getattr(consensus, name) for name in dir(consensus) if not name.startswith("_")}
        for room in ("solvers", "step_sizes", "surrogates", "local", "compression", "robust", "directions"):
            names |= vars(names[room])
        law, own = "eval(repr(solver)) gives an equal solver", {type(part).__module__ for part in parts(solver)}
        for module in own:
            names |= vars(sys.modules[module])
        try:
            back = eval(repr(solver), names)
        except Exception as error:
            where = ", ".join(sorted({"consensus", *own}))
            laws.fail(law, f"with the names of numpy, {where} it raises {type(error).__name__}: {error}")
        laws.true(law, repr(back) == repr(solver), f"found {back!r}")


def _refusals(laws: Laws, solver: Solver, problem: Any, network: ScheduleLike) -> None:
    """Check that unmet needs are rejected before any work, by the solver's name."""
    needs, name = needs_of(solver), type(solver).__name__

    def run(problem: BaseProblem, schedule: ScheduleLike) -> None:
        consensus.solve(problem, schedule, solver, rounds=1)

    if problem.shards is not None:
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
    stochastic = {"column stochastic": topologies.pull, "row stochastic": topologies.push, "doubly stochastic": topologies.push}
    directed = topologies.Static(directed_graph(network.agents), weights=stochastic.get(needs.mixing, topologies.sinkhorn))
    laws.refused("mixing matrices of another kind are refused", lambda: run(problem, directed), name)


def _reaches(
    laws: Laws, solver: Solver, problem: BaseProblem, network: ScheduleLike, start: np.ndarray, tolerance: float, within: int
) -> None:
    """Check that agents agree on a stationary point; say which of the two is missing."""
    law = "agents agree on a stationary point"
    options: dict[str, Any] = {"rounds": within, "record_every": max(1, within // 100), "tolerance": tolerance}
    try:
        history = consensus.solve(problem, network, solver, start=start, **options).history
    except consensus.DivergenceError as error:
        laws.fail(law, f"it diverges, by a wrong sign or too large a step: {error}")
    stationarity, apart = (float(history[name][-1]) for name in ("stationarity", "disagreement"))
    found = f"after {history['round'][-1]:.0f} rounds stationarity is {stationarity:.2g} and disagreement {apart:.2g}"
    if apart > tolerance:
        hint = "agents do not agree: give it more rounds or a constant step, and look at what it mixes"
    else:
        hint = "agents agree elsewhere: look at the gradients, and at sums over agents that get lost (conserved=...)"
    laws.true(law, max(stationarity, apart) <= tolerance, f"{found}, more than {tolerance:g}; {hint}")


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

    ready = solver.prepared(problem, network)
    edges = ready.edges(network)
    matrices = [edges.weights(edges.key(n)) for n in range(rounds)]
    links = sum(matrix.nnz - np.count_nonzero(matrix.diagonal()) for matrix in matrices)
    equal("exchanges are exchanges_a_round", "exchanges", rounds * int(a_round))
    equal("messages are edges times exchanges", "messages", int(links * a_round))
    packed = hasattr(solver, "rank") or not isinstance(getattr(solver, "compressor", NoCompression()), NoCompression)
    if packed or not solver.sends:
        return
    kept = ready.kept if isinstance(ready, SharedBody) else None
    shared = problem.parameters - (0 if kept is None else int(np.count_nonzero(kept)))
    few = {"mass": 1, "masses": problem.network_size}
    numbers = sum(few.get(name, shared) for name in solver.sends.split(", "))
    inner: Any = solver
    times = 1
    while inner is not None:  # each of the solvers inside one another, of which Gossip has several exchanges
        times, inner = times * getattr(inner, "exchanges", 1), getattr(inner, "solver", None)
    equal("floats are the vectors that it sends", "floats", int(links * numbers * times))
