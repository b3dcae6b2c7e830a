"""Checks that a solver fits a problem and a network."""

from typing import Any, cast

from scipy.sparse.csgraph import connected_components

import topologies
from consensus import _checks
from consensus.local.newton import has_prox_jvp
from consensus.losses.base import LossDefaults
from consensus.models.linearization import ModelDefaults
from consensus.problems import BaseProblem, Problem, has_model
from consensus.problems.linearizable import check_convex
from consensus.problems.minibatches import Minibatches, as_minibatches
from consensus.problems.samples import check_sizes, fewest, has_buffers, needing, of_batches
from consensus.regularizers.base import Regularizer
from consensus.solvers.base import Solver
from consensus.solvers.defaults import SolverDefaults
from consensus.solvers.needs import Needs
from consensus.surrogates import FullLinearization
from topologies import _names
from topologies.analysis.connectivity import known_components, parts
from topologies.schedules import ScheduleLike, is_static


def check_needs(solver: Solver, problem: BaseProblem, schedule: ScheduleLike) -> None:
    """Refuse what ``solver`` cannot run on, warn of what its theory misses; :func:`consensus.solve` does so before any work.

    The solver's :class:`Needs` are tested first, then its own :meth:`Solver.check` and ``check_network``.

    Parameters
    ----------
    solver : Solver
        With all its settings.
    problem : Problem
        The costs and the regularizer.
    schedule : schedule
        The network, as ``topologies.Static(graph)``.

    Raises
    ------
    ValueError
        If the regularizer is not smooth, or not zero, and has to be; if the model is stochastic or normalises batches, and must
        not, or batches are too small to be normalised; if mixing matrices do not sum to one, or are not symmetric, where they
        have to; what the solver's own checks raise.
    TypeError
        If an argument is of another kind; if the problem has no model, and one is linearised; if its model has directions in
        place of gradients, and must not; if the regularizer or the loss lacks a method that is needed.

    Warns
    -----
    UserWarning
        If the solver's theory asks for something that does not hold, as convex costs; if the graphs never join all agents; if a
        model with dropout never draws, because there is no batch.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.solvers import DGD
    >>> from consensus.solvers import check_needs
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=5, parameters=3, regularizer=consensus.L1(0.1))
    >>> check_needs(DGD(0.1), problem, topologies.Static(topologies.ring(5)))
    Traceback (most recent call last):
        ...
    ValueError: DGD needs a smooth regularizer, and L1(weight=0.1) is not: NEXT(FullLinearization(tau), step_size) takes it
    """
    solver = _checks.completed(_checks.solver(solver), SolverDefaults)
    _checks.problem(problem)
    _checks.schedule(schedule)
    for name, base in (("model", ModelDefaults), ("loss", LossDefaults)):
        if (own := getattr(problem, name)) is not None and (whole := _checks.completed(own, base)) is not own:
            setattr(problem, name, whole)  # of a user's Linearizable
    problem.check_solver(solver)
    who, needs = _name(solver), solver.needs
    _check_regularizer(who, needs, problem.regularizer, schedule)
    _check_costs(who, needs, problem, schedule)
    _check_draws(who, solver, problem)
    if needs.exact:
        check_true_gradients(who, problem)
    solver.check(problem)
    _check_network(solver, schedule)
    solver.check_network(schedule)


def _name(solver: object) -> str:
    """Return the names of the class and of what is inside, as ``Gossip(DGD)`` and ``NEXT(PartialLinearization)``."""
    inner = getattr(solver, "solver", getattr(solver, "surrogate", None))
    made_of = f"({_name(inner)})" if isinstance(inner, Solver) or hasattr(inner, "at") else ""
    return f"{type(solver).__name__}{made_of}"


def _any_cost(schedule: ScheduleLike) -> str:
    """Return the solver to name that takes any costs and regularizer on this network."""
    from consensus.solvers.next import NEXT
    from consensus.solvers.sonata import SONATA

    for kind in (NEXT, SONATA):
        if not topologies.check(schedule, kind(FullLinearization(1.0), 0.5)).refusal:
            return f"{kind.__name__}(FullLinearization(tau), step_size)"
    return "SONATA(FullLinearization(tau), step_size) with weights=topologies.push"


def _check_regularizer(who: str, needs: Needs, r: Regularizer, schedule: ScheduleLike) -> None:
    quadratic = getattr(r, "quadratic", False)
    if r.of_agents and not needs.own_regularizers:
        raise ValueError(cast(Any, r).refusal(who, schedule))
    if needs.regularizer == "none" and not (quadratic and r.strong_convexity == 0):
        raise ValueError(f"{who} takes no regularizer, and the problem has {r}: give it none")
    if needs.regularizer == "smooth":
        if not r.smooth:
            raise ValueError(f"{who} needs a smooth regularizer, and {r} is not: {_any_cost(schedule)} takes it")
        _checks.needs(who, r, "gradient")
    if needs.regularizer == "prox_jvp":
        if not quadratic and not has_prox_jvp(r):
            raise TypeError(
                f"{who} needs {type(r).__name__}.prox_jvp, which is missing: define it, or use {_any_cost(schedule)}"
            )
        _checks.needs(who, r, "quadratic", "strong_convexity", "active")


def _check_costs(who: str, needs: Needs, problem: BaseProblem, schedule: ScheduleLike) -> None:
    model, loss = problem.model, problem.loss
    if needs.coupled and not problem.coupled:
        raise TypeError(
            f"{who} needs a problem with coupled constraints, consensus.problems.Coupled(costs, A, b); got {problem}"
        )
    if needs.model and not has_model(problem):
        lacks = "has none" if model is None else "reads its samples batch by batch"
        raise TypeError(
            f"{who} needs a model to linearise, and {problem} {lacks}: give a consensus.Problem(model, loss, shards), or use "
            f"{_any_cost(schedule)}"
        )
    if loss is not None:
        _checks.needs(who, loss, *needs.loss)
        if needs.loss:
            check_convex(who, loss)
    if not needs.convex:
        return
    if problem.nonconvex is not None:
        _checks.warn(f"{who}'s theory needs a convex regularizer, and {problem.nonconvex} is not")
    if loss is not None and not loss.convex:
        _checks.warn(f"{who}'s theory needs convex costs, and {loss} need not be convex")
    elif model is not None and not model.jacobian_is_constant:
        _checks.warn(f"{who}'s theory needs convex costs, and a loss of {model}, which is not linear in w, need not be")


def _check_draws(who: str, solver: Solver, problem: BaseProblem) -> None:
    """Refuse a model that draws random numbers or normalises batches where it must not, and warn if it never draws."""
    model, needs = problem.model, solver.needs
    loss, inner = problem.loss, cast(Any, solver)
    while getattr(inner, "batch", None) is None and hasattr(inner, "solver"):
        inner = inner.solver
    batch = getattr(inner, "batch", None)
    if of_batches(loss) and (needs.model or (needs.deterministic and batch is not None)):
        raise ValueError(
            f"{who} needs the losses of single samples, and {loss} is one of a whole batch: take a solver of gradients alone, "
            "such as GradientTracking(0.1, batch=32)"
        )
    stochastic, normalises = model is not None and model.stochastic, has_buffers(model)
    differs = stochastic or (model is not None and model.differs)
    if (differs or normalises) and (needs.model or needs.deterministic):
        why = "draws random numbers in training" if stochastic else "is another function in training"
        why = why if differs else "normalises batches in training"
        raise ValueError(
            f"{who} needs a deterministic model, and {model} {why}: take a solver of gradients alone, such as "
            "GradientTracking(0.1, batch=32), or call module.eval() first"
        )
    if fewest(model, loss) > 1:
        _check_batches(who, batch, problem)
    if of_batches(loss) and isinstance(rule := as_minibatches(batch), Minibatches) and isinstance(problem, Problem):
        check_sizes(
            problem.loss, rule.sizes(problem), problem.shards.targets[problem.shards.weights > 0], problem.model.outputs
        )
    if differs and batch is None:
        _checks.warn(
            f"{who} has no batch, and gradients of all samples are in evaluation mode: dropout and the like are left out; give "
            "batch=, or call module.eval() first"
        )


def _check_batches(who: str, batch: int | Minibatches | None, problem: Any) -> None:  # noqa: ANN401  # one with samples
    """Refuse batches of a single sample where the model needs two to normalise, or the loss two to compare."""
    rule, sizes, model, loss = as_minibatches(batch), problem.shards.sizes, problem.model, problem.loss
    least, who_needs = fewest(model, loss), needing(model, loss)
    if rule is None and sizes.min() < least:
        remedy = (
            "call module.eval() first, which keeps the averages of a trained module, or normalise by GroupNorm"
            if has_buffers(model)
            else "give every agent two at least"
        )
        agent = _names.agent(problem.rows[sizes.argmin()], problem.labels)
        raise ValueError(f"{who_needs} two samples or more, and {agent} has one: {remedy}")
    if isinstance(rule, Minibatches) and rule.least(problem) < least:
        raise ValueError(
            f"{who_needs} two samples or more, and {who} with batch={batch} draws single ones: take another "
            "size, which leaves no single sample at the end of an epoch, or Minibatches(size, replacement=True)"
        )


def check_true_gradients(who: str, problem: BaseProblem) -> None:
    """Raise ``TypeError`` if a model has directions in place of gradients, which ``who`` cannot take."""
    if problem.true_gradients() is not problem:
        raise TypeError(
            f"{who} needs the gradients of the costs, and {cast(Problem, problem).model} has other directions in their place: "
            "take a solver of gradients alone, such as GradientTracking(0.1), or train its .exact"
        )


def _check_network(solver: Solver, schedule: ScheduleLike) -> None:
    _checks.mixing(schedule.weights(schedule.key(0)), schedule)
    if solver.needs.tree and (why := _no_tree(schedule)):
        raise ValueError(f"{type(solver).__name__} sums along a tree, and {why}: AdaptiveNEXT takes any network")
    found = topologies.check(schedule, solver)
    if found.refusal:
        raise ValueError(found.refusal)
    if found.conditions.components > 1:
        groups = sorted(known_components(schedule), key=len, reverse=True)
        sizes = [*map(len, groups[:10]), *(["..."] if len(groups) > 10 else [])]
        named = parts(schedule, groups)
        _checks.warn(
            f"the network is never jointly connected: it falls into {found.conditions.components} parts"
            f"{f' of sizes {sizes} (agents {named})' if groups else ''}, which cannot agree with each other"
        )
    for condition, holds, why in found.needs:
        if not holds and condition != "one component":
            _checks.warn(
                f"{found.solver}'s theory needs mixing matrices with the condition '{condition}' ({why}), and it does not "
                "hold; print(topologies.check(network, solver)) shows more"
            )


def _no_tree(schedule: ScheduleLike) -> str | None:
    """Return why the agents of ``schedule`` have no spanning tree; None if they have one."""
    if not is_static(schedule):
        return "the network changes from round to round"
    matrix = schedule.weights(schedule.key(0)) != 0
    if (matrix != matrix.T).nnz:
        return "the network is directed"
    return None if connected_components(matrix, directed=False)[0] == 1 else "the network is not connected"
