"""Tables of four owners of very unequal sizes, and the same rows in one place."""

import contextlib
import io
import warnings

import numpy as np
import pandas as pd

import consensus

SIZES = (12, 300, 1000, 5000)


def tables(sizes=SIZES, seed=0):
    """Columns in different orders, missing pressures, the ward C at one owner alone."""
    rng, found = np.random.default_rng(seed), []
    for owner, size in enumerate(sizes):
        ward = rng.choice(["A", "B", "C"] if owner == 2 else ["A", "B"], size)
        frame = pd.DataFrame({"age": rng.integers(20, 90, size), "pressure": rng.normal(120 + owner, 15, size), "ward": ward})
        frame["smokes"] = (rng.random(size) < 0.3).astype(int)
        frame["exposure"] = np.log(rng.uniform(0.5, 3, size))
        frame["weight"] = rng.uniform(0.5, 2, size)
        mean = np.exp(-1 + 0.01 * frame.age + 0.4 * frame.smokes + 0.3 * (ward == "B") + frame.exposure)
        frame["falls"] = rng.poisson(mean)
        frame["cost"] = rng.gamma(2.0, mean * 50 / 2)
        frame["days"] = 2 + 0.05 * frame.age + 3 * frame.smokes + rng.normal(0, 1 + frame.smokes)
        frame["ill"] = np.where(rng.random(size) < 1 / (1 + np.exp(2 - 0.03 * frame.age)), "yes", "no")
        frame["time"] = np.ceil(rng.exponential(30 * np.exp(-0.02 * (frame.age - 50)), size) + owner)
        frame["died"] = (rng.random(size) < 0.7).astype(int)
        frame.loc[rng.random(size) < 0.05, "pressure"] = np.nan
        found.append(frame[frame.columns if owner % 2 == 0 else frame.columns[::-1]])
    return found


OUTCOMES = ("falls", "cost", "days", "ill", "time", "died")


def owned(found, target, own=consensus.data.own, keep=(), **settings):
    """What the owners agree on; other outcomes are left out."""
    targets = [target] if isinstance(target, str) else target
    out = [name for name in (*OUTCOMES, "exposure", "weight") if name not in (*targets, *keep)]
    given = {"categories": ["ward"], "missing": "mean", "drop": out} | settings
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return own(found, target, **given)


def pooled(found):
    """The rows in one place, with the mean for missing pressures, and the design of statisticians."""
    frame = pd.concat([own.assign(owner=k) for k, own in enumerate(found)], ignore_index=True)
    frame["pressure"] = frame.pressure.fillna(frame.pressure.mean())
    design = pd.DataFrame({"intercept": 1.0, "age": frame.age, "pressure": frame.pressure})
    return frame, design.assign(ward_B=frame.ward == "B", ward_C=frame.ward == "C", smokes=frame.smokes).astype(float)


def main():
    """On two ranks, each with two owners: fits and curves with sums in secret."""
    from consensus.owners import fit, kaplan_meier
    from tests.helpers.engine_harness import engine_here, say

    engine = engine_here()
    here = tables((12, 300, 1000, 500))[2 * engine.rank : 2 * engine.rank + 2]
    counts = owned(here, "falls", engine=engine)
    found = fit(counts, "poisson", engine=engine, secure=True, kind="robust")
    binomial = fit(counts, "negative binomial", engine=engine, secure=True)
    followed = owned(here, ["time", "died"], engine=engine)
    cox = fit(followed, "cox", engine=engine, secure=True, kind="robust")
    curves = kaplan_meier(followed, range(10, 121, 10), by="ward", engine=engine, secure=True)
    said = [part.tolist() for fitted in (found, binomial, cox) for part in (fitted.coefficients, fitted.covariance)]
    say([*said, list(curves.log_rank), curves.table.survival.tolist()])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
