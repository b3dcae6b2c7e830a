"""Four hospitals: their tables, what they train, and how each of them runs it on its own rank."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import consensus
import topologies
from consensus.observe import EarlyStopping
from consensus.solvers import AdaptiveNEXT, GradientTracking, TreeNewton

SIZES = (60, 25, 40, 33)
RIDGE, RUNS = 1e-2, ("ridge", "mlp", "classes")  # that have no test sets


def hospitals(seed=0):
    """Tables of four hospitals with columns in different orders; the ward C is known to one of them only."""
    rng, tables = np.random.default_rng(seed), []
    for owner, size in enumerate(SIZES):
        frame = pd.DataFrame(
            {
                "age": rng.integers(20, 90, size),
                "pressure": 1e4 + rng.normal(120, 15 + 5 * owner, size),
                "smokes": (rng.random(size) < 0.3).astype(int),
                "ward": rng.choice(["A", "B", "C"] if owner == 2 else ["A", "B"], size),
                "site": 1,
            }
        )
        frame["days"] = 2 + 0.05 * frame.age + 3 * frame.smokes + (frame.ward == "C") + rng.normal(0, 0.5, size)
        frame["outcome"] = np.where(frame.days > 5, "long", "short")
        tables.append(frame[frame.columns if owner % 2 == 0 else frame.columns[::-1]])
    return tables


def write(folder):
    """Write each table to a folder of its own; the files."""
    paths = [Path(folder, f"hospital-{owner}", "stays.csv") for owner in range(len(SIZES))]
    for path, table in zip(paths, hospitals(), strict=True):
        path.parent.mkdir(parents=True)
        table.drop(columns="outcome").to_csv(path, index=False)
        table.drop(columns="days").to_csv(path.with_name("outcomes.csv"), index=False)
    return paths


def agreed(paths, run, **settings):
    """What the owners agree on for a run; ``paths`` is the file, or the files, of those in this process."""
    one = isinstance(paths, Path)
    if run == "classes":
        paths = paths.with_name("outcomes.csv") if one else [path.with_name("outcomes.csv") for path in paths]
    return consensus.data.own(paths, "outcome" if run == "classes" else "days", categories=["ward"], **settings)


def solved(owned, run, **settings):
    """The result of a run."""
    features, network = len(owned.pipeline.columns.features), topologies.ring(len(SIZES))
    model = consensus.MLP([features, 6, 1]) if run == "mlp" else consensus.Linear(features)
    loss = consensus.LogisticLoss() if run == "classes" else consensus.SquaredLoss()
    solver = {"ridge": TreeNewton(), "mlp": GradientTracking(0.1), "classes": AdaptiveNEXT()}[run]
    problem = consensus.Problem(model, loss, owned.shards, consensus.L2(RIDGE))
    return consensus.solve(problem, network, solver, rounds=40, seed=3, **settings)


def main(folder):
    """On ranks: each run, by files of which each rank opens its own; the first rank writes what comes out."""
    from tests.helpers.engine_harness import engine_here, say

    engine, said = engine_here(), {}
    for run in RUNS:
        owned = agreed(Path(folder, f"hospital-{engine.rank}", "stays.csv"), run, engine=engine)
        result = solved(owned, run, engine=engine)
        said[run] = [engine.ranks.allgather(owned.shards.features.shape), owned.revealed.to_dict("list")]
        if engine.root:
            np.savez(Path(folder, f"{run}.npz"), w=result.w, mean=owned.pipeline.mean, scale=owned.pipeline.scale)
    owned = agreed(Path(folder, f"hospital-{engine.rank}", "stays.csv"), "mlp", engine=engine, test_size=0.3)
    result = solved(owned, "mlp", engine=engine, test=owned.test, callbacks=[EarlyStopping(patience=4)], record_every=2)
    said["tested"] = [result.rounds, result.history["agent_test_error"].tolist(), owned.revealed.to_dict("list")]
    says = []
    for broken in ("other", "absent"):  # the second hospital lacks a column, or has no file at all
        name = broken if engine.rank == 1 else "stays"
        try:
            consensus.data.own(
                Path(folder, f"hospital-{engine.rank}", f"{name}.csv"), "days", categories=["ward"], engine=engine
            )
        except (ValueError, FileNotFoundError) as error:
            says.append(f"{type(error).__name__}: {error}")
    said["refused"] = engine.ranks.allgather(says)
    sys.stdout = sys.__stdout__
    say(said)


if __name__ == "__main__":
    with open(Path(sys.argv[1], "announced"), "a") as sys.stdout:  # standard output is for the report alone
        main(sys.argv[1])
