"""A user's script with all types: test_typed.py runs it, and lets mypy check it strictly against the installed packages."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

import consensus
import topologies
from consensus.communication import Network
from consensus.local import LocalSolution, LocalSolver
from consensus.observe import RoundInfo
from consensus.problems import BaseProblem
from consensus.regularizers import Regularizer
from consensus.solvers import NEXT, Needs, Solver
from consensus.surrogates import Surrogate


class Averaged(NamedTuple):
    round: int
    w: np.ndarray


@dataclass(frozen=True)
class Diffusion(Solver):
    step_size: float
    exchanges: int = 1

    sends = "w"

    @property
    def needs(self) -> Needs:
        return Needs(regularizer="smooth", static=self.exchanges > 1)

    def init(self, problem: BaseProblem, w: np.ndarray) -> Averaged:
        return Averaged(0, w)

    def step(self, problem: BaseProblem, network: Network, state: Averaged) -> Averaged:
        w = state.w - self.step_size * problem.average_gradient(state.w)
        for _ in range(self.exchanges):
            (w,) = network.mix(state.round, w)
        return Averaged(state.round + 1, w)


@dataclass(frozen=True)
class Exponential:
    features: int
    outputs: int = 1

    @property
    def parameters(self) -> int:
        return self.features

    def init(self, rng: np.random.Generator) -> np.ndarray:
        return 0.1 * rng.standard_normal(self.features)

    def predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(x @ w[:, :, None]))

    def jvp(self, w: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.asarray(self.predict(w, x) * (x @ v[:, :, None]))

    def vjp(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return np.asarray((x.swapaxes(1, 2) @ (u * self.predict(w, x)))[:, :, 0])


@dataclass(frozen=True)
class Turns:
    agents: int

    def key(self, round: int) -> int:
        return round % self.agents

    def weights(self, key: int) -> sparse.csr_array:
        matrix = np.eye(self.agents)
        pair = [key, (key + 1) % self.agents]
        matrix[np.ix_(pair, pair)] = 0.5
        return sparse.csr_array(matrix)


class Line(NamedTuple):
    w: np.ndarray
    gradient: np.ndarray


@dataclass(frozen=True)
class Linearised:
    tau: float

    def check(self, problem: BaseProblem) -> None: ...

    def at(self, problem: BaseProblem, w: np.ndarray, gradient: np.ndarray) -> Line:
        return Line(w, gradient)


@dataclass(frozen=True)
class OneProx:
    tau: float

    def check(self, surrogate: Linearised, problem: BaseProblem) -> None: ...

    def solve(
        self, model: Line, linear: np.ndarray, regularizer: Regularizer, start: np.ndarray | None, tolerance: float
    ) -> LocalSolution:
        w = regularizer.prox(model.w - (model.gradient + linear) / self.tau, 1 / self.tau)
        return LocalSolution(w, np.ones(len(w), int))


def enough(seen: RoundInfo) -> str | None:
    return "near enough" if seen["objective"] < 1e-3 else None


def main() -> consensus.Result:
    X, y = consensus.datasets.load("diabetes")
    data = consensus.datasets.split(X, y > 140, seed=0, classification=True)
    shards = consensus.partition(data.X, data.y, agents=5, scheme="sorted")
    problem = consensus.Problem(Exponential(10), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    network: topologies.ScheduleLike = Turns(5)
    surrogate: Surrogate = Linearised(tau=20.0)
    local: LocalSolver = OneProx(tau=20.0)
    for solver in (Diffusion(step_size=0.01), NEXT(surrogate, 0.5, local)):
        result = consensus.solve(
            problem, network, solver, rounds=20, record_every=1, callbacks=[enough], metrics={"norm": norm}
        )
        final: float = result.history["objective"][-1]
        print(f"{solver}: {final:.3g} after {result.rounds} rounds, at {result.mean.round(2)}: {result.reason}")
    return result


def norm(w: np.ndarray) -> float:
    return float(np.linalg.norm(w))


if __name__ == "__main__":
    main()
