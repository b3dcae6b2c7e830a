"""Run a solver over a network."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike

from consensus import _arguments, _checks, engines
from consensus._arrays.digest import digest
from consensus.checkpoints.checkpoint import Checkpoint as Saved
from consensus.checkpoints.checkpoint import fingerprint, known_by
from consensus.data import Shards
from consensus.engines import Begin, Engine
from consensus.engines.ranks import told_here_alone
from consensus.observe import Observer
from consensus.observe.callbacks import Callback
from consensus.observe.measure import measured_agents
from consensus.observed import observed
from consensus.options import Checkpoint, Record, RunOptions
from consensus.problems import BaseProblem, Minibatches
from consensus.result import Result
from consensus.solvers import Auto, Solver, check_needs
from consensus.solvers.defaults import SolverDefaults
from topologies.schedules import ScheduleLike

ENGINES = {"stacked": "Stacked", "processes": "Processes", "mpi": "MPI", "torch": "Torch"}  # in consensus.engines


def solve(
    problem: BaseProblem,
    network: ScheduleLike | nx.Graph,
    solver: Solver | None = None,
    *,
    rounds: int,
    start: ArrayLike | None = None,
    seed: int | np.random.Generator = 0,
    engine: str | Engine = "stacked",
    record: Record | None = None,
    record_every: float | None = None,
    tolerance: float | None = None,
    exchanges: int | None = None,
    seconds: float | None = None,
    callbacks: Sequence[Callback] = (),
    metrics: Mapping[str, Callable[[np.ndarray], float]] | None = None,
    progress: bool = False,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    every: int = 50,
    resume: str | os.PathLike[str] | None = None,
    gather: bool = True,
    test: tuple[ArrayLike, ArrayLike] | Shards | None = None,
    agent_objectives: bool = False,
    metrics_on: int | Minibatches | None = None,
    honest: Sequence[int | str] | None = None,
    stop: str | Callback | Sequence[str | Callback] | None = None,
    keep: str | None = None,
) -> Result:
    """Let the agents of ``network`` solve ``problem``.

    Parameters
    ----------
    problem : Problem
        The agents' costs and the regularizer.
    network : schedule or networkx.Graph
        Who talks to whom in each round; a graph means ``topologies.Static(graph)``. Its agents are matched with those of the
        problem by name where both have names (``labels``), and by position otherwise: see the notes.
    solver : Solver, optional
        By default :class:`consensus.solvers.Auto`, which chooses a method that has nothing to tune, and says which and why.
    rounds : int
        How many rounds at most.
    start : array_like (P,) or (agents, P), optional
        One start for all agents, or one for each. By default ``problem.model.init`` draws it from ``seed``, the same for
        all agents; for a problem given by functions it is a standard normal draw.
    seed : int or numpy.random.Generator
        Seed for drawing ``start``. Nothing else uses it.
    engine : {"stacked", "processes", "mpi", "torch"} or engine object
        Where the run happens: see :mod:`consensus.engines`.
    record : Record, optional
        What is recorded, in one object: ``Record(every=, metrics=, test=, agents=, samples=, honest=, best=, gather=)``. The
        keywords ``record_every``, ``metrics``, ``test``, ``agent_objectives``, ``metrics_on``, ``honest``, ``keep`` and
        ``gather`` are the same fields in this order, and rejected beside it.
    record_every : int or float, optional
        The history gets a row at the start, every so many rounds, and at the end; below one it is a part of the rounds so far:
        0.01 is every round up to the 200th, then a hundredth of them. By default rows are so far apart that they take at most a
        tenth of the work, by counts of samples. If it is a whole number, what stops a run, and callbacks, act at these rounds
        alone; otherwise in every round, and a ``tolerance``, or a ``stop`` by what is measured, has each recorded.
    tolerance : float, optional
        Stop at the first round where stationarity and disagreement are both at most this.
    exchanges : int, optional
        Stop at the first round by whose end at least this many exchanges were made.
    seconds : float, optional
        Stop at the first round where the history's column ``seconds`` is at least this.
    callbacks : sequence of callable
        Functions of a :class:`consensus.observe.RoundInfo`, called in every round, or with ``record_every`` at recorded ones,
        the start or the row that a resumed run goes on from included. Each returns None, or a text that is the reason to stop.
        Their time is not counted. On engines without rounds they are called at recorded rounds.
    metrics : mapping of str to callable, optional
        More columns of the history, off its clock: each a function of the agents' mean (P,) that returns a number.
    progress : bool
        Show a progress bar in a terminal or notebook. Elsewhere the logger ``consensus`` gets a line every ten seconds or so.
    checkpoint : Checkpoint or path, optional
        ``Checkpoint(path, every=50)``: a file to which the run's state is written every so many rounds and at its end; or the
        path alone, with ``every`` beside it. Two runs cannot write one file. Ranks
        write a file each beside it, with the rows of their own agents, on disks that need not be shared.
    every : int
        Rounds between two checkpoints.
    resume : path, optional
        A checkpoint of the same run, written on any engine or ranks: the result is, to the bit, that of a run never stopped.
    gather : bool
        On ranks: whether every rank's result holds all agents' ``w``, or its own alone. Then no rank needs memory for all.
    test : (X, y), dataset or Shards, optional
        For columns of test errors: X (samples, features), for a ``LazyProblem`` also a dataset; or shards, a set an agent.
    agent_objectives : bool
        Also record U at every agent's own copy (as costly as A recordings).
    metrics_on : int or Minibatches, optional
        Samples of each agent by which objectives and ``stationarity`` are estimated, the same in each row; all by default.
    honest : sequence of int or str, optional
        The agents that are measured, by number or, as text, by name. By default all but the Byzantine agents of a
        :class:`consensus.robust.Attack`; give it if agents' data are wrong (:func:`consensus.robust.flip_labels`).
    stop : str, callable or a list of these, optional
        Stop at the first round where one of them holds: a column of the history, ``<=``, ``>=``, ``<`` or ``>``, and a
        number, such as ``"test_error <= 0.08"``; or a callback, such as :class:`consensus.observe.EarlyStopping`.
    keep : str, optional
        A column of the history: ``result.best`` is the recorded point at which it was least, beside the last one.

    Returns
    -------
    Result
        Its history has the columns ``round``, of the rows; at the agents' mean ``objective`` (U) and ``stationarity``
        (``|w - prox_r(w - grad G(w))|``); ``disagreement`` (``sqrt(mean_i |w_i - mean|^2)``); what was sent so far in the
        whole network: ``exchanges`` (each between every agent and its neighbours), ``messages`` (edges used, both ways),
        ``floats`` and ``bytes`` in them, and ``bytes_busiest``, those that the busiest agent sent and received; the work so
        far: ``gradients`` and local ``solves`` per agent, over all agents the ``samples`` in these gradients, ``iterations``
        inside the solves and how many of these were left ``unfinished``, short of what was asked; ``epochs``, the passes over
        all the data that these samples amount to (of costs given by functions, the gradients per agent); ``seconds`` of wall
        time in rounds, observation left out. On several machines there is ``bytes_between_hosts``, with a test set
        ``test_error`` of the mean and ``test_error_worst`` of the worst agent: mean squared errors or fractions of wrong
        labels; with ``agent_objectives`` or test shards ``agent_objective`` or ``agent_test_error`` (rows, agents).
        A solver may add columns of its own, as :class:`consensus.solvers.AdaptiveNEXT` does; ``metrics`` are the last ones.
        If some of the A agents are Byzantine, columns and ``result.mean`` describe the H honest ones, with the objective
        ``A/H sum_i g_i + r``, and all agents' messages. Agents with models of their own are measured at these, not their mean.
        With secure sums (``TreeLBFGS(secure=SecureSums())``) those of the history are masked, too; with
        :class:`consensus.privacy.Private` on ranks ``objective`` and ``stationarity`` are NaN.

    Raises
    ------
    ValueError, TypeError
        If the arguments do not fit each other, or ``checkpoint`` cannot be written; before any work.
    DivergenceError, LocalSolveError
        If an iterate is NaN, infinite or above 1e150, if a local problem has no solution; they carry the history.
    WorkerError
        If a worker process dies or keeps the others waiting for longer than the engine's ``timeout``.
    Interrupted
        On ctrl-C; it carries the result so far.
    Preempted
        On ranks with a checkpoint, which were told to end by SIGTERM or SIGUSR1: a ``SystemExit`` with the exit code 75.
    Exception
        Whatever a callback, a metric or a solver raises, ``SystemExit`` included, with the history so far as ``.history``.

    Warns
    -----
    UnfinishedWarning
        At the first local solve that did not get as far as was asked; it names the agent, the residual, and what to change.
    UserWarning
        If the network lacks what the solver's theory needs. If the objective at the end is above that at the start, or if
        that of a method without settings was recorded more than a hundredth above it. If a process keeps the others waiting for
        some seconds longer than usual: it is named, and the run goes on if it comes.

    Notes
    -----
    Agents are those of the problem, in its order: so are ``start``, ``honest``, the rows of ``result.w`` and columns of the
    history for each agent. Where the problem and the network have the same names, the network's agents are put into that order;
    with weights of fixed rules, such as Metropolis, the run is, to the bit, that on the graph with its nodes in this order.
    Different names are an error. Where one side alone has names, agents are joined by position, and the log says so. A matrix
    of pairs of agents in a solver or engine, such as ``Personalized(weights)``, is in the order of ``network.labels``.

    On ranks, by MPI or torchrun: if any rank rejects its arguments, every rank raises the error before work starts. A later
    error ends the job, after the history is written beside the checkpoint, or else into the working directory. Callbacks and
    metrics are called on the first rank alone, and all ranks receive what they return.

    Examples
    --------
    >>> import consensus, topologies
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> shards = consensus.partition(scale(X), scale(y), agents=10, seed=0)
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    >>> from consensus.solvers import NEXT
    >>> from consensus.surrogates import PartialLinearization
    >>> result = consensus.solve(problem, topologies.ring(10), NEXT(PartialLinearization(tau=0.1), 0.2), rounds=300)
    >>> bool(result.history["stationarity"][-1] < 1e-6)
    True
    """
    given = locals()
    if isinstance(engine, str):
        where: Engine = getattr(engines, ENGINES[_checks.choice("engine", engine, tuple(ENGINES))])()
    else:
        where = _checks.completed(_checks.engine(engine), Engine)
    where = where.resolved()
    with where.agreed() as settings:
        options = RunOptions.of(given)
        options.check_writable()
        _checks.problem(problem)
        solver = Auto() if solver is None else _checks.completed(_checks.solver(solver), SolverDefaults)
        needs = solver.needs
        directed = needs.directed if needs.mixing in ("column stochastic", "row stochastic") else None
        network = _arguments.schedule(network, directed)
        if network.agents != problem.network_size:
            raise ValueError(
                f"the network has {network.agents} agents, the problem {problem.network_size}: they must be the same"
            )
        if needs.wakes and not where.without_rounds:
            raise TypeError(
                f"{type(solver).__name__} wakes without rounds, and {where} has rounds: give engine="
                "consensus.asynchronous.Simulated(), AsyncProcesses(), AsyncMPI() or AsyncTorch(), or MPI(asynchronous=True)"
            )
        where.check(problem)
        network, order, labels = _arguments.joined(problem, network, where.root)
        solver, where = solver.matched(order, labels), where.matched(order, labels)
        settings["names of agents"] = labels
        settings["seed of the start"] = seed if start is None else None
        with told_here_alone(problem.agents < problem.network_size):
            check_needs(solver, problem, network)
            start = _arguments.start(problem, start, seed)
            options = options.fitted(problem, solver)
        measured = measured_agents(options.honest, solver, network.agents, labels)
        if needs.tree and start.strides[0] and not (start == start[0]).all():
            raise ValueError(f"start must be the same for all agents, (P,): {type(solver).__name__} has one point for all")
        hides = solver.secret or solver.secure is not None
        options.check_hidden(solver, where.size > 1)
        if options.honest is not None and solver.secure is not None:
            raise ValueError("honest is a sum over some agents, which tells what the others add to secure sums: leave it out")
        whole = problem.agents == problem.network_size
        identity: dict[str, str | None] = {}
        if options.checkpoint or options.resume or where.size > 1:
            # A user's functions are not called for the comparison of ranks alone.
            data = bool(options.checkpoint or options.resume or problem.shards is not None)
            identity = fingerprint(problem, network, solver, start, data)
            if measured is not None:
                identity["honest"] = str(measured.tolist())
            settings |= identity | options.compared | {"problem": "of all agents" if whole else "of its own agents"}

    solver = where.prepare(solver, problem, network)
    edges = solver.edges(network)
    if identity:
        identity["solver"] = known_by(solver)
        identity |= {"clock": where.clock(edges)} if needs.wakes else {}  # solvers with rounds have it in their settings
    saved = bool(options.checkpoint or options.resume)
    if saved and not whole and not hides:  # a digest tells whoever can guess the samples that they are right
        identity["data"] = digest(*where.allgather(problem.digests()))
    if saved:
        identity |= options.identity(where)

    def run(observer: Observer, resumed: Saved | None) -> str | None:
        begin = Begin(resumed.fields, resumed=True) if resumed else Begin.start(start if where.size > 1 else np.array(start))
        return where.run(problem, edges, solver, begin, options.rounds, observer)

    each, watched = where.broadcast(lambda: (options.each and not needs.wakes, bool(options.callbacks)))
    result = observed(options, problem, solver, identity, run, where, measured, each=each, watched=watched, labels=labels)
    if options.gather:
        return result
    rows = where.rows(problem.network_size)
    own = None if measured is None else np.flatnonzero(np.isin(np.arange(rows.start, rows.stop), measured))
    w = result.w if len(result.w) < problem.network_size else result.w[rows].copy()
    return replace(result, w=w, honest=own, labels=None if labels is None else labels[rows])
