"""Default steps and penalties: rounds to 1e-6 over those of the best constant setting, and how often they diverge.

The other settings stay as they are by default. The best constant is looked for by factors of two (of sqrt 2 around the best) on
both sides of the default, until both neighbours of the best are worse: it is never at an end of the grid. For methods with a
penalty in place of a step, the penalty is what varies.
"""

import argparse
import itertools
import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
from tqdm import tqdm

import consensus
import topologies
from consensus import solvers
from consensus.errors import DivergenceError, LocalSolveError
from consensus.solvers import Solver, TopK
from consensus.steps import Constant, Stable

RELATIVE, MOST, COARSE = 1e-6, 30_000, 1.5  # of the start's stationarity; rounds; a run may take so many times the best's
INEXACT = (solvers.DGD, solvers.ChocoSGD)  # which end near the optimum, not at it


@dataclass(frozen=True)
class Case:
    """A problem on a network: ``costs`` squared, logistic, huber or network; features scaled between 1 and 1/sqrt(condition)."""

    costs: str
    graph: str
    agents: int
    scheme: str = "iid"
    condition: float = 1.0
    weight: float = 1e-2
    samples: int = 20
    features: int = 5
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.costs}, {self.graph} {self.agents}, {self.scheme}, {self.condition:g}, {self.weight:g}"

    def problem(self) -> consensus.Problem:
        rng = np.random.default_rng(self.seed)
        scales = np.geomspace(1, self.condition**-0.5, self.features)
        X = rng.standard_normal((self.samples * self.agents, self.features)) * scales
        y = X @ (rng.standard_normal(self.features) / scales) + 0.5 * rng.standard_normal(len(X))
        y /= y.std()
        loss = {"logistic": consensus.LogisticLoss(), "huber": consensus.Huber(0.5)}.get(self.costs, consensus.SquaredLoss())
        model = consensus.MLP([self.features, 4, 1]) if self.costs == "network" else consensus.Linear(self.features)
        y = np.sin(2 * y) if self.costs == "network" else (y > 0.2).astype(float) if self.costs == "logistic" else y
        extra = {}
        if self.scheme == "sizes":
            extra["sizes"] = rng.multinomial(len(X) - self.agents, rng.dirichlet(np.ones(self.agents))) + 1
        shards = consensus.partition(X, y, self.agents, self.scheme, seed=self.seed, **extra)
        return consensus.Problem(model, loss, shards, consensus.L2(self.weight))

    def network(self, weights=topologies.metropolis) -> topologies.Static:
        graph = (
            topologies.erdos_renyi(self.agents, min(1, 2 * math.log(self.agents + 1) / self.agents), seed=self.seed)
            if self.graph == "erdos"
            else getattr(topologies, self.graph)(self.agents)
        )
        return topologies.Static(graph, weights=weights)


NAMED = (
    Case("squared", "ring", 10, "iid", 10),
    Case("squared", "ring", 10, "sorted", 100),
    Case("squared", "path", 6, "iid", 1000, 1e-3),
    Case("squared", "star", 8, "sizes", 10),
    Case("squared", "erdos", 20, "sorted", 30),
    Case("squared", "complete", 5, "iid", 1000, 1e-3),
    Case("squared", "erdos", 50, "iid", 10),
    Case("squared", "path", 2, "sorted", 100, 1e-3),
    Case("squared", "ring", 30, "iid", 3, 1e-1),
    Case("logistic", "ring", 10, "sorted", 10),
    Case("logistic", "erdos", 20, "iid", 3, 1e-3),
    Case("logistic", "star", 8, "iid", 30),
    Case("logistic", "complete", 10, "sorted", 10),
    Case("huber", "ring", 10, "iid", 10),
    Case("huber", "erdos", 20, "sorted", 10),
    Case("huber", "path", 6, "sizes", 100),
    Case("network", "ring", 6, "iid", 1, 1e-1),
    Case("network", "erdos", 10, "sorted", 1, 1e-1),
)


def random_case(seed: int) -> Case:
    rng = np.random.default_rng([seed, 5])
    costs = str(rng.choice(["squared", "squared", "logistic", "huber", "network"]))
    graph = str(rng.choice(["ring", "path", "star", "erdos", "complete"]))
    agents = 2 + int(48 * rng.random() ** 2)
    agents = max(agents, 3) if graph in ("ring", "star") else agents
    scheme = str(rng.choice(["iid", "sorted", "sizes"]))
    condition, weight = 10 ** rng.uniform(0, 4), 10 ** rng.uniform(-4, 0)
    return Case(costs, graph, agents, scheme, condition, weight, int(rng.integers(2, 40)), int(rng.integers(1, 12)), seed)


def with_defaults() -> dict[str, Solver]:
    """The solvers that find a step or a penalty by themselves, and reach an optimum with it."""
    made: dict[str, Solver] = {"GradientTracking cta": solvers.GradientTracking(order="cta")}
    for name in solvers.__all__:
        kind = getattr(solvers, name)
        if isinstance(kind, type) and issubclass(kind, Solver) and kind.stable_step is not Solver.stable_step:
            if issubclass(kind, (*INEXACT, solvers.Wrapper if hasattr(solvers, "Wrapper") else INEXACT)):
                continue
            try:
                made[name] = kind(TopK(0.5)) if "compressor" in kind.__init__.__annotations__ else kind()
            except TypeError:
                continue
    return made


def scaled(ready: Solver, asked: Solver, factor: float) -> Solver:
    """A prepared solver with what it found times ``factor``."""
    if isinstance(getattr(asked, "alpha", None), Stable):
        new = replace_alpha(ready, Constant(ready.alpha(0) * factor))
        return new
    return replace(ready, **{k: getattr(ready, k) * factor for k in ("penalty", "damping") if hasattr(ready, k)})


def replace_alpha(solver, alpha):
    import copy

    new = copy.copy(solver)
    new._set(alpha=alpha)
    return new


def fits(case: Case, solver: Solver) -> bool:
    return case.costs != "network" or not solver.needs.convex


def rounds(problem, network, solver, most, relative=RELATIVE):
    """Rounds until stationarity and disagreement are at most ``relative`` of the start's stationarity; inf if ``most`` are not enough."""
    start = problem.model.init(np.random.default_rng(1))
    if np.allclose(start, 0):
        start = np.random.default_rng(1).standard_normal(problem.parameters)
    tolerance = relative * problem.stationarity(start)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = consensus.solve(
                problem, network, solver, rounds=most, start=start, tolerance=tolerance, record_every=max(1, min(5, most // 50))
            )
        except (DivergenceError, LocalSolveError):
            return math.nan
    last = result.history["stationarity"][-1], result.history["disagreement"][-1]
    return float(result.history["round"][-1]) if max(last) <= tolerance else math.inf


def ratio(case: Case, solver: Solver, most: int = MOST):
    """rounds of the default and of the best constant, and the factor at which it is."""
    weights = topologies.lazy(topologies.metropolis) if isinstance(solver, solvers.D2) else topologies.metropolis
    problem, network = case.problem(), case.network(weights)
    relative = 1e-3 if case.costs == "network" else RELATIVE
    ready = solver.prepared(problem, network)
    default = rounds(problem, network, ready, most, relative)
    found = {0.0: default}  # by the factor's logarithm to base sqrt 2
    best, stride = 0.0, 4
    while stride:
        for place in (best + stride, best - stride):
            while place not in found:
                least = min((n for n in found.values() if n == n), default=math.inf)
                limit = int(min(most, COARSE * least + 10))
                found[place] = rounds(problem, network, scaled(ready, solver, 2 ** (place / 2)), limit, relative)
                if found[place] < least:
                    best, place = place, 2 * place - best if False else place + math.copysign(stride, place - best)
                elif not math.isfinite(least) and abs(place) < 24:
                    place += math.copysign(stride, place)
        stride //= 2
    return default, found[best], 2 ** (best / 2)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m experiments.benchmarks.defaults", description=__doc__)
    parser.add_argument("--solvers", nargs="*", help="by default all that have a default")
    parser.add_argument("--cases", type=int, nargs="*", help="which of the named problems")
    parser.add_argument("--random", type=int, default=500, help="random problems on which nothing may diverge")
    parser.add_argument("--rounds", type=int, default=300, help="rounds on each of these")
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--each", action="store_true", help="print every problem")
    options = parser.parse_args(arguments)
    for name, solver in with_defaults().items():
        if options.solvers is not None and name not in options.solvers:
            continue
        rows = []
        for k, case in enumerate(NAMED):
            if options.cases is not None and k not in options.cases or not fits(case, solver):
                continue
            default, best, factor = ratio(case, solver, options.most)
            rows.append(default / best if default == default else math.inf)
            if options.each:
                print(f"    {name:<20} {rows[-1]:7.2f} {default:8g} {best:8g}  best at {factor:9.4g}   {k} {case}", flush=True)
        diverged = 0
        for seed in range(options.random):
            case = random_case(seed)
            if fits(case, solver):
                diverged += diverges(case, solver, options.rounds)
        known = [r for r in rows if r == r]
        if known:
            print(f"{name:<24} median {np.median(known):6.2f}  worst {max(known):7.2f}  unknown {len(rows)-len(known)}  diverged {diverged} of {options.random}", flush=True)
        else:
            print(name, "diverged", diverged, "of", options.random)


def diverges(case, solver, most):
    weights = topologies.lazy(topologies.metropolis) if isinstance(solver, solvers.D2) else topologies.metropolis
    problem, network = case.problem(), case.network(weights)
    start = np.random.default_rng(case.seed).standard_normal(problem.parameters)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = consensus.solve(problem, network, solver, rounds=most, start=start, record_every=most)
        except (DivergenceError, LocalSolveError):
            return True
    return bool(result.history["objective"][-1] > result.history["objective"][0] * 1.001)


if __name__ == "__main__":
    main()
