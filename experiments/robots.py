"""Robots around what they protect: what a barycentre that nobody knows costs, by network and by exchanges a round."""

import numpy as np

import consensus
import topologies
from consensus.problems import Aggregative
from consensus.solvers import AggregativeGT, Gossip
from consensus.studies import Grid, Study
from experiments.shared.studies import options, shown

ROBOTS = 10
GRAPHS = {
    "path": topologies.path,
    "random": lambda size: topologies.erdos_renyi(size, 0.3, seed=0),
    "complete": topologies.complete,
}
MEASURES = ("exchanges to objective 0.01%", "gradients to objective 0.01%")


def case(seed, graph, pull=4.0):
    """Robots in a square, each with an intruder of its own; together they want their barycentre at the origin."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(-0.6, 2.6, ROBOTS)
    intruders = np.stack([np.cos(angles), np.sin(angles)], axis=1) * rng.uniform(3, 6, (ROBOTS, 1))
    problem = Aggregative(
        lambda x, s: ((x - intruders) ** 2 + pull * s**2).sum(axis=1) / 2,
        lambda x, s: (x - intruders, pull * s),
        agents=ROBOTS,
        parameters=2,
        regularizer=consensus.Box(-4.0, 4.0),
    )
    network = topologies.Static(GRAPHS[graph](ROBOTS), weights=topologies.lazy(topologies.metropolis))
    return problem, network, {"start": rng.uniform(-4, 4, (ROBOTS, 2)), "record_every": 1}


def solvers():
    def several(exchanges):
        return lambda step_size: Gossip(AggregativeGT(step_size), exchanges)

    steps = [0.02, 0.04, 0.08, 0.16]
    made = {1: AggregativeGT, 3: several(3), 9: several(9)}
    return {f"{k} exchange{'s' * (k > 1)} a round": Grid(make, step_size=steps) for k, make in made.items()}


def study(folder, measure=MEASURES[0], graphs=tuple(GRAPHS), **settings):
    settings = {"rounds": 1200, "seeds": 10, "tuning_seeds": 3} | settings
    return Study(case, over={"graph": list(graphs)}, solvers=solvers(), measure=measure, folder=folder, **settings)


def figure(found):
    """The stationarity by exchanges, a panel for each network."""
    made = found.plot("stationarity", "exchanges")
    made.axes[0].set_ylabel("stationarity of all variables")
    return made


def main(arguments=None):
    given = options(__doc__, arguments, seeds=10)
    for measure in MEASURES:  # each with the steps that suit it
        found = shown(study(given.output / "robots", measure, seeds=given.seeds), given.workers)
    figure(found).savefig(given.output / "robots.png", bbox_inches="tight")


if __name__ == "__main__":
    main()
