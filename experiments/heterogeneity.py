"""Seven methods with batches on a ring of 16 agents, from like data to few classes each: the worst agent's test error."""

import functools

import consensus
import topologies
from consensus.solvers import D2, GUT, KGT, DecentLaM, DSGDm, GradientTracking, QGDSGDm
from consensus.studies import Grid, Study
from experiments.shared.cases import load
from experiments.shared.studies import options, shown, worst_error

AGENTS, BATCH = 16, 16
CONCENTRATIONS = [100.0, 0.05]  # of Dirichlet's distribution of the classes: like data, one or two classes each


def case(seed, concentration):
    parts = consensus.datasets.split(*load("digits"), classification=True, seed=seed)
    shards = consensus.partition(parts.X, parts.y, AGENTS, scheme="dirichlet", concentration=concentration, seed=seed)
    problem = consensus.Problem(consensus.MLP([64, 32, 10]), consensus.CrossEntropy(), shards, consensus.L2(1e-4))
    network = topologies.Static(topologies.ring(AGENTS), weights=topologies.lazy(topologies.metropolis))  # as D2 asks
    return problem, network, {"test": (parts.X_test, parts.y_test), "record_every": 50}


def solvers():
    """Steps are tuned, and GUT's tracking; momenta are 0.9, and KGT has two local steps, so twice the gradients."""

    def tuned(kind, first=0.1, **settings):
        axes = {name: value for name, value in settings.items() if isinstance(value, list)}
        fixed = {name: value for name, value in settings.items() if name not in axes}
        return Grid(functools.partial(kind, batch=BATCH, **fixed), step_size=[first, 4 * first], **axes)

    return {
        "DSGDm": tuned(DSGDm, 0.4),
        "QGDSGDm": tuned(QGDSGDm),
        "DecentLaM": tuned(DecentLaM),
        "D2": tuned(D2, 0.4),
        "GUT": tuned(GUT, 0.4, tracking=[0.5, 0.8]),
        "tracking": tuned(GradientTracking, 0.2, order="cta"),
        "KGT": tuned(KGT, 0.2, local_steps=2),
    }


def study(folder, concentrations=CONCENTRATIONS, **settings):
    settings = {"rounds": 150, "seeds": 3, "tuning_seeds": 1} | settings
    over = {"concentration": concentrations}
    return Study(case, over=over, solvers=solvers(), measure=worst_error, folder=folder, **settings)


def main(arguments=None):
    given = options(__doc__, arguments, rounds=150, seeds=3)
    shown(study(given.output / "heterogeneity", rounds=given.rounds, seeds=given.seeds), given.workers)


if __name__ == "__main__":
    main()
