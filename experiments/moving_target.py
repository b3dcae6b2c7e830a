"""Four methods that follow a target which moves in every round: what they pay a round over the minimisers, by its speed."""

import numpy as np

import topologies
from consensus.directions import Momentum
from consensus.problems import Online
from consensus.solvers import DGD, Gossip, GradientTracking
from consensus.studies import Grid, Study
from experiments.shared.studies import options, shown

AGENTS, PARAMETERS, ROUNDS = 10, 4, 100
SPEEDS = [0.01, 0.1]  # the length of the target's way in a round


def case(seed, speed):
    """Quadratics of agents that differ, whose centres go round a circle of radius 1 together; agents start at zero."""
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.standard_normal((AGENTS, PARAMETERS, PARAMETERS)))
    curvatures = (axes * np.linspace(0.2, 1, PARAMETERS)) @ axes.swapaxes(1, 2) / AGENTS
    offsets = rng.standard_normal((AGENTS, PARAMETERS))
    middle = np.linalg.solve(curvatures.sum(axis=0), (curvatures @ offsets[..., None]).sum(axis=0)[:, 0])

    def way(round):
        return np.array([np.cos(speed * round), np.sin(speed * round), 0.0, 0.0])

    def slopes(w, round):
        return (curvatures @ (w - offsets - way(round))[..., None])[..., 0]

    problem = Online(
        lambda w, round: ((w - offsets - way(round)) * slopes(w, round)).sum(axis=1) / 2,
        slopes,
        agents=AGENTS,
        parameters=PARAMETERS,
        optimum=lambda round: middle + way(round),
        comparator=middle + np.mean([way(round) for round in range(ROUNDS + 1)], axis=0),  # the best in hindsight
    )
    return problem, topologies.erdos_renyi(AGENTS, 0.4, seed=0), {"start": np.zeros(PARAMETERS), "record_every": 1}


def dynamic_regret_a_round(result):
    """The regret against the rounds' own minimisers, over the number of rounds, the start among them."""
    return float(result.history["dynamic_regret"][-1] / len(result.history["round"]))


def regret_a_round(result):
    """The regret against the best fixed point in hindsight, over the number of rounds; negative is better than that point."""
    return float(result.history["regret"][-1] / len(result.history["round"]))


def last_tracking_error(result):
    """The root mean square of the agents' distances from the minimiser, over the last quarter of the rounds."""
    errors = result.history["tracking_error"]
    return float(np.sqrt(np.square(errors[-(len(errors) // 4 + 1) :]).mean()))


def solvers():
    def several(step_size):
        return Gossip(DGD(step_size), 3)

    def momentum(step_size):
        return GradientTracking(step_size, direction=Momentum(0.8))

    return {
        "DGD": Grid(DGD, step_size=[0.2, 0.4, 0.8]),
        "DGD, 3 exchanges": Grid(several, step_size=[0.2, 0.4, 0.8]),
        "tracking": Grid(GradientTracking, step_size=[0.8, 1.6, 3.2]),
        "tracking, momentum": Grid(momentum, step_size=[0.2, 0.4, 0.8]),
    }


def study(folder, measure=dynamic_regret_a_round, speeds=SPEEDS, **settings):
    settings = {"rounds": ROUNDS, "seeds": 10, "tuning_seeds": 3} | settings
    return Study(case, over={"speed": speeds}, solvers=solvers(), measure=measure, folder=folder, **settings)


def figure(found):
    """The distance from the moving minimiser by rounds, with the quartiles of the seeds, a panel for each speed."""
    made = found.plot("tracking_error", "round")
    for axes, speed in zip(made.axes, SPEEDS, strict=True):
        axes.set(title=f"target moves {speed:g} a round", xlabel="round")
    made.axes[0].set_ylabel("distance from the minimiser\n(root mean square of agents)")
    return made


def main(arguments=None):
    given = options(__doc__, arguments, seeds=10)
    for measure in (dynamic_regret_a_round, regret_a_round, last_tracking_error):  # each with the steps that suit it
        found = shown(study(given.output / "moving_target", measure, seeds=given.seeds), given.workers)
        if measure is last_tracking_error:
            figure(found).savefig(given.output / "moving_target.png", bbox_inches="tight")


if __name__ == "__main__":
    main()
