"""Default steps and penalties: rounds to 1e-6 over those of the best constant, and how many of 500 random runs diverge.

A solver's other settings stay as they are. The best constant is looked for by factors of four, two and the square root of two
on both sides of the best so far, from the default on, until its neighbours are worse: it is inside of what was tried. Of
NewtonTracking penalty and damping vary together.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

import consensus
import topologies
from consensus import solvers
from consensus.solvers import Solver
from experiments.shared.timing import Rows, options
from experiments.untuned.cases import graph
from experiments.untuned.counting import quiet

TOLERANCE, NETWORKS = 1e-6, 1e-3  # times the first stationarity; the second of models that are not linear
MOST, DRAWN = 20_000, 300  # rounds on the named problems, and on each of those that are drawn
INEXACT = ("ChocoSGD", "DGD")  # they end near the optimum, not at it
COMPRESSED = ("BEER", "CGT", "LEAD", "MoTEF")


@dataclass(frozen=True)
class Case:
    """``costs`` are squared, logistic, huber or network; standard deviations of features are 1 to ``condition^(-1/2)``."""

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
        shown = f"{self.costs}, {self.graph} of {self.agents}, {self.scheme}"
        return f"{shown}, condition {self.condition:.3g}, L2 {self.weight:.3g}"

    @property
    def convex(self) -> bool:
        return self.costs != "network"

    def problem(self) -> consensus.Problem:
        rng, scales = np.random.default_rng(self.seed), np.geomspace(1, self.condition**-0.5, self.features)
        X = rng.standard_normal((self.samples * self.agents, self.features)) * scales
        y = X @ (rng.standard_normal(self.features) / scales) + 0.5 * rng.standard_normal(len(X))
        y /= y.std()
        loss = {"logistic": consensus.LogisticLoss(), "huber": consensus.Huber(0.5)}.get(self.costs, consensus.SquaredLoss())
        model = consensus.Linear(self.features) if self.convex else consensus.MLP([self.features, 4, 1])
        y = {"logistic": (y > 0.2).astype(float), "network": np.sin(2 * y)}.get(self.costs, y)
        sizes = {}
        if self.scheme == "sizes":
            sizes["sizes"] = 1 + rng.multinomial(len(X) - self.agents, rng.dirichlet(np.ones(self.agents)))
        shards = consensus.partition(X, y, self.agents, self.scheme, seed=self.seed, **sizes)
        return consensus.Problem(model, loss, shards, consensus.L2(self.weight))

    def network(self, solver: Solver) -> topologies.Static:
        weights = topologies.lazy(topologies.metropolis) if isinstance(solver, solvers.D2) else topologies.metropolis
        return topologies.Static(graph(self.graph, self.agents, self.seed), weights)


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
    """2 to 50 agents with 2 to 40 samples each on average, 1 to 12 features, condition up to 10^4, L2 from 10^-4 to 1."""
    rng = np.random.default_rng([seed, 5])
    costs = str(rng.choice(["squared", "squared", "logistic", "huber", "network"]))
    graph = str(rng.choice(["ring", "path", "star", "erdos", "complete"]))
    agents = max(2 + int(48 * rng.random() ** 2), 3 if graph in ("ring", "star") else 2)
    scheme = str(rng.choice(["iid", "sorted", "sizes"]))
    condition, weight = 10 ** rng.uniform(0, 4), 10 ** rng.uniform(-4, 0)
    return Case(costs, graph, agents, scheme, condition, weight, int(rng.integers(2, 40)), int(rng.integers(1, 12)), seed)


def with_defaults() -> dict[str, Solver]:
    """The solvers that find a step or a penalty and with it reach an optimum; compressed messages are top half."""
    found: dict[str, Solver] = {"GradientTracking cta": solvers.GradientTracking(order="cta")}
    for name in solvers.__all__:
        kind = getattr(solvers, name)
        if isinstance(kind, type) and issubclass(kind, Solver) and kind.stable_step is not Solver.stable_step:
            if name in COMPRESSED:
                found[name] = kind(consensus.compression.TopK(0.5))
            elif name not in INEXACT and "solver" not in getattr(kind, "__dataclass_fields__", {}):
                found[name] = kind()
    return found


def scaled(solver: Any, ready: Any, factor: float) -> Solver:
    """The prepared ``solver``, with ``factor`` times what it found."""
    names = ["step_size"] if hasattr(ready, "step_size") else ["penalty", "damping"]
    return dataclasses.replace(ready, **{name: factor * getattr(ready, name) for name in names if hasattr(ready, name)})


def rounds(case: Case, solver: Solver, most: int) -> float:
    """Until stationarity and disagreement are at most the tolerance times the first stationarity; inf if that takes more."""
    problem, rng = case.problem(), np.random.default_rng(1)
    start = rng.standard_normal(problem.parameters) if case.convex else problem.model.init(rng)
    tolerance = (TOLERANCE if case.convex else NETWORKS) * problem.stationarity(start)
    options = {"rounds": most, "tolerance": tolerance, "record_every": max(1, min(5, most // 50))}
    found = quiet(problem, case.network(solver), solver, start=start, **options)[0].last()
    return float(found["round"]) if max(found["stationarity"], found["disagreement"]) <= tolerance else math.inf


def ratio(case: Case, solver: Solver, most: int = MOST) -> tuple[float, float, float]:
    """Rounds of the default and of the best constant, and by which factor that is larger; the first is at most ``most``."""
    ready = solver.prepared(case.problem(), case.network(solver))
    found = {0: rounds(case, ready, most)}  # by the logarithm of the factor to base sqrt(2)
    best, stride = 0, 4
    while stride:
        for side in (stride, -stride):
            while best + side not in found and abs(best + side) <= 40:
                least = found[best]
                limit = most if math.isinf(least) else int(1.2 * least) + 5  # of a worse one it is enough that it is worse
                found[best + side] = rounds(case, scaled(solver, ready, 2 ** ((best + side) / 2)), limit)
                if found[best + side] < least:
                    best += side
                elif math.isinf(least):
                    side += int(math.copysign(stride, side))
        stride //= 2
    return min(found[0], most), min(found[best], most), 2 ** (best / 2)


def diverges(case: Case, solver: Solver, most: int) -> bool:
    """Return whether the objective after ``most`` rounds from a normal start is above the first, or no number."""
    problem = case.problem()
    start = np.random.default_rng(case.seed).standard_normal(problem.parameters)
    found = quiet(problem, case.network(solver), solver, start=start, rounds=most, record_every=most)[0]
    return found["round"][-1] < most or not found["objective"][-1] <= 1.001 * found["objective"][0]


def fits(case: Case, solver: Solver) -> bool:
    return case.convex or not solver.needs.convex


def main():
    known = with_defaults()
    numbers = {"random": (500, "problems on which runs may diverge"), "each": (False, "print every named problem, too")}
    given = options(__doc__, solvers=(list(known), "that find a step or a penalty"), **numbers)
    rows = Rows("rounds over the best's", 22, {"median": ".2f", "worst": ".2f", "diverged": "", "runs": ""})
    for name in given.solvers:
        solver, ratios = known[name], []
        for case in (case for case in NAMED if fits(case, solver)):
            default, best, factor = ratio(case, solver)
            ratios.append(default / best)
            if given.each:
                print(f"  {default / best:6.2f} = {default:g} / {best:g}, best at {factor:.3g} times the default: {case}")
        drawn = [case for case in map(random_case, range(given.random)) if fits(case, solver)]
        bad = sum(diverges(case, solver, DRAWN) for case in tqdm(drawn, desc=name, disable=None))
        rows.add(name, np.median(ratios), max(ratios), bad, len(drawn))


if __name__ == "__main__":
    main()
