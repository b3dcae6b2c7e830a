"""Compressed messages: the objective and the stationarity against bytes, beside tracking that sends all its numbers."""

import functools

from consensus.compression import Quantize, TopK
from consensus.solvers import BEER, CGT, LEAD, ChocoSGD, GradientTracking
from consensus.step_sizes import CosineAnnealing
from consensus.studies import Grid, Study
from experiments.shared import cases
from experiments.shared.studies import options, shown

COMPRESSORS = {"top 10%": TopK(0.1), "4 bits": Quantize(4)}
LEVELS = {"10%": 200, "1%": 6000}  # parts of the stationarity at the start, and the rounds in which they are to be reached
STEPS, GAMMAS = [0.05, 0.1], [0.25, 0.5]  # gamma is the step towards neighbours


def case(seed, agents):
    whole = cases.case("boston", agents, seed, scheme="sorted")
    return whole.problem, cases.graph(agents, seed), {"test": whole.test}


def solvers(compressor, rounds):
    """ChocoSGD's step falls to zero along a cosine, as with a constant one it stays in a neighbourhood of the optimum.

    LEAD is only for messages without bias: with the largest entries it diverges.
    """
    compressor = COMPRESSORS[compressor]

    def falling(step_size, gamma):
        return ChocoSGD(compressor, CosineAnnealing(step_size, rounds), gamma)

    def compressed(make):
        return Grid(make, step_size=STEPS, gamma=GAMMAS)

    found = {
        "tracking": Grid(GradientTracking, step_size=STEPS),
        "tracking, combine then adapt": Grid(functools.partial(GradientTracking, order="cta"), step_size=STEPS),
        "BEER": compressed(functools.partial(BEER, compressor)),
        "CGT": compressed(functools.partial(CGT, compressor)),
        "ChocoSGD": compressed(falling),
    }
    return found | ({"LEAD": compressed(functools.partial(LEAD, compressor))} if compressor.unbiased else {})


def study(folder, compressor, level, agents, rounds, seeds):
    """Bytes until the stationarity stays at most at that part of its start."""
    measured = {"measure": f"bytes to stationarity {level}", "reference": lambda problem: 0.0}
    usual = {"rounds": rounds, "seeds": seeds, "tuning_seeds": 1, "folder": folder}
    return Study(functools.partial(case, agents=agents), solvers=solvers(compressor, rounds), **measured, **usual)


def main(arguments=None):
    quick = {"agents": 6, "rounds": 20, "seeds": 1}
    given = options(__doc__, arguments, quick, agents=10, rounds=max(LEVELS.values()), seeds=3)
    folder = given.output / "compression"
    for compressor in COMPRESSORS:
        for level, most in LEVELS.items():  # each with the settings that suit it
            found = shown(study(folder, compressor, level, given.agents, min(most, given.rounds), given.seeds), given.workers)
            print(found.differences("tracking").to_markdown(), end="\n\n")
        for measure in ("objective", "stationarity"):
            figure = found.plot(measure, "bytes", log_x=True)
            figure.axes[0].set_title(f"boston, {compressor}")
            figure.savefig(folder / f"{compressor}, {measure}.png", dpi=150)


if __name__ == "__main__":
    main()
