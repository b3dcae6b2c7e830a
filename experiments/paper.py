"""Collect what the paper shows from a results folder: its figures, tables, and every number in its text."""

import argparse
import json
import math
import shutil
import sys
from pathlib import Path

import numpy as np

from consensus.solvers.adaptive import curvature, filters
from experiments import (
    blocks,
    centralised,
    convergence,
    direct_feedback,
    failures,
    layer_parallel,
    scale,
    sparsity,
    stragglers,
    tangent,
    tangent_propagation,
    tensor_parallel,
)
from experiments.shared import cases, clusters, methods, reading, slowed
from experiments.shared.tables import latex_text

EXPERIMENTS = "convergence sparsity blocks network solvers shards failures tangent direct_feedback tangent_propagation scale"
EXPERIMENTS += " stragglers centralised layer_parallel tensor_parallel"
FIGURES = dict.fromkeys(EXPERIMENTS.split(), ("figure",)) | {
    "convergence": ("figure", "stationarity", "test-error"),
    "network": ("figure", "objective"),
    "failures": ("disagreement",),
    "tangent": ("figure", "risks"),
    "centralised": ("figure", "clusters"),
}
TABLES = dict.fromkeys(EXPERIMENTS.split(), ("table",)) | {
    "convergence": ("table", "ratios"),
    "blocks": ("timing",),
    "solvers": ("ranks",),
    "tangent": ("table", "risks"),
    "stragglers": ("table", "quadratics"),
}
SHORT = {
    convergence.LOCAL: "local",
    convergence.FULL: "full",
    convergence.TRACKING: "tracking",
    "DGD": "DGD",
    convergence.ADAPTIVE: "adaptive",
}
SLACK = 0.05  # of the test error, that zeros may cost
PAPER = Path(__file__).parents[1] / "paper"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m experiments.paper", description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"), help="default: results")
    parser.add_argument("--output", type=Path, default=PAPER / "generated", help="default: paper/generated")
    options = parser.parse_args(arguments)
    try:
        collect(options.results, options.output)
    except FileNotFoundError as error:
        sys.exit(f"error: {error.filename} is missing; `python -m experiments all --output {options.results}` makes it")
    print(f"collected in {options.output}")


def collect(results, output):
    output.mkdir(parents=True, exist_ok=True)
    for suffix, wanted in (("pdf", FIGURES), ("tex", TABLES)):
        for experiment, names in wanted.items():
            for name in names:
                shutil.copyfile(results / experiment / f"{name}.{suffix}", output / f"{experiment}-{name}.{suffix}")
    lines = (rf"\expandafter\def\csname result@{key}\endcsname{{{value}}}" for key, value in sorted(numbers(results).items()))
    (output / "numbers.tex").write_text("\n".join(lines) + "\n")


def numbers(results):
    """Every number in the paper's text, by name."""
    given = reading.options(results / "convergence")
    start, middle, level = map(_percent, convergence.LEVELS.values())
    found = {
        "agents": given["agents"],
        "edge": cases.PROBABILITY,
        "hidden": cases.HIDDEN,
        "decay": f"{cases.DECAY.weight:g}",
        "adaptive.columns": curvature.COLUMNS,
        "adaptive.directions": curvature.DIRECTIONS,
        "adaptive.longest": filters.LONGEST,
        "convergence.trials": methods.TUNING,
        "convergence.start": start,
        "convergence.middle": middle,
        "convergence.level": level,
        "convergence.mnistrows": convergence.LARGE["mnist"]["rows"],
        "convergence.mnistshorter": convergence.SHORTER["mnist"],
        "convergence.repeats": given["seeds"],
        "blocks.rows": blocks.ROWS,
        "sparsity.weights": len(sparsity.WEIGHTS),
        "sparsity.slack": _percent(SLACK),
        "failures.most": _percent(max(failures.LOST)),
        "network.rounds": reading.options(results / "network")["rounds"],
        "tangent.units": tangent.SHOWN,
        "scale.samples": scale.SAMPLES,
        "scale.degree": scale.DEGREE,
        "scale.largest": f"{reading.options(results / 'scale')['agents']:,}",
        "centralised.hidden": centralised.HIDDEN,
        "centralised.decay": f"{centralised.DECAY.weight:g}",
        "centralised.close": centralised.CLOSE,
        "centralised.speed": latex_text(f"{clusters.SPEED:.0e}"),
        "centralised.adds": latex_text(f"{clusters.ADDS:.0e}"),
        "environment": latex_text(_environment(results)),
    }
    found |= _measured(results) | _served(results / "centralised") | layer_parallel.in_the_paper(results / "layer_parallel")
    found |= tensor_parallel.in_the_paper(results / "tensor_parallel")
    return {key: str(value) for key, value in found.items()}


def _measured(results):
    found = _ratios(results / "convergence" / "ratios.csv") | _mnist(results / "convergence" / "table.csv")
    for data, rows in reading.grouped(results / "sparsity" / "table.csv"):
        rows = [row for row in rows if row["solver"] == sparsity.PARTIAL]
        least = min(float(row["test error"]) for row in rows)
        zeros = max(float(row["zeros"]) for row in rows if float(row["test error"]) <= (1 + SLACK) * least)
        found[f"sparsity.{data}.zeros"] = _percent(zeros)
    timing = reading.rows(results / "blocks" / "timing.csv")
    cores = max(int(row["cores"]) for row in timing)
    found["blocks.cores"] = cores
    for system, name in (("normal equations", "primal"), ("by size", "auto")):
        gains = [float(row["speed-up"]) for row in timing if (row["linear systems"], int(row["cores"])) == (system, cores)]
        found[f"blocks.{name}"] = f"{max(gains):.1f}"
    ours = [row for row in reading.rows(results / "failures" / "table.csv") if row["solver"] == failures.PARTIAL]
    for column, name in (("objective", "ratio"), ("agents' own, mean", "own"), ("agents' own, worst", "worst")):
        ends = {float(row["lost"]): float(row[column]) for row in ours}
        found[f"failures.{name}"] = f"{ends[max(failures.LOST)] / ends[0.0]:.2f}"
    for row in reading.rows(results / "tangent" / "table.csv"):
        if int(row["units"]) == tangent.SHOWN:
            columns = {"network": "network", "least": "tangent, least", "bound": "any quadratic, least"}
            columns |= {"features": "random features, least"}
            found |= {f"tangent.{row['data set']}.{key}": f"{float(row[name]):.3g}" for key, name in columns.items()}
    found |= tangent.stated(reading.rows(results / "tangent" / "risks.csv"))
    found |= direct_feedback.stated(reading.rows(results / "direct_feedback" / "table.csv"))
    found |= tangent_propagation.stated(reading.rows(results / "tangent_propagation" / "table.csv"))
    return found | _ahead(results / "stragglers")


def _ahead(folder):
    """Return ratios of seconds, NEXT without rounds to NEXT with rounds, the better surrogate of each, by clock."""
    first, common = next(iter(stragglers.LEVELS)), next(iter(slowed.LEVELS))
    places = {
        "slow": ("table", first),
        "late": ("table", first),
        "simulated": ("quadratics", common),
        "real": ("quadratics", common),
    }
    clocks = (*stragglers.CLOCKS, slowed.SIMULATED, slowed.REAL)
    found = {"stragglers.first": _percent(stragglers.LEVELS[first])}
    for clock, (name, (table, level)) in zip(clocks, places.items(), strict=True):
        rows = [
            row for row in reading.rows(folder / f"{table}.csv") if row["clock"] == clock and row["solver"].startswith("NEXT")
        ]
        sides = [[float(row[level]) for row in rows if ("without" in row["solver"]) is side] for side in (False, True)]
        found[f"stragglers.{name}"] = f"{min(sides[0]) / min(sides[1]):.2g}"
    return found


def _ratios(path):
    """Return the others' exchanges to the last level as multiples of the reference's: the range of the sets' medians."""
    level = convergence.ENDS.removeprefix("exchanges ")
    rows = [row for row in reading.rows(path) if row["data set"] not in convergence.SHORTER]
    found = {"ratios.sets": len({row["data set"] for row in rows})}
    for solver, short in SHORT.items():
        values = {row["data set"]: float(row[level]) for row in rows if row["solver"] == solver}
        known = [value for value in values.values() if not math.isnan(value)]
        unknown = [latex_text(name) for name, value in values.items() if math.isnan(value)]
        found[f"ratios.{short}"] = _range(known) + (
            f" (the reference did not get there on {' and '.join(unknown)})" if unknown else ""
        )
    return found


def _range(values):
    if not values:
        return "unknown"
    least, most = min(values), max(values)
    return f"{least:.3g} to {most:.3g}" if math.isfinite(most) else f"at least {least:.3g}" if math.isfinite(least) else "never"


def _mnist(path):
    """Who comes how far on MNIST, in how many exchanges (medians over the repeats)."""
    rows = [row for row in reading.rows(path) if row["data set"] == "mnist" and row["solver"] in convergence.NAMES]
    found = {}
    for measure, name in zip(convergence.LEVELS, ("first", "second", "third"), strict=True):
        needed = {row["solver"]: float(row[measure]) for row in rows}
        there = sorted((count, solver) for solver, count in needed.items() if math.isfinite(count))
        found[f"convergence.mnist.{name}"] = "; ".join(f"{solver} ({count:.0f})" for count, solver in there) or "nobody"
    return found


def _served(folder):
    """Who comes near the least objective with the least, with and without a server; who is first on how many clusters."""
    rows = reading.rows(folder / "table.csv")
    found = {"centralised.agents": rows[0]["compute"]}
    for column, unit in zip(centralised.NEAR, ("epochs", "MB", "s"), strict=True):
        for part, names in (("without", centralised.WITHOUT), ("with", centralised.WITH)):
            value, name = min((float(row[column]), row["method"]) for row in rows if row["method"] in names)
            needed = f"{latex_text(name)} ({latex_text(f'{value:.3g}')}\\,{unit})"
            found[f"centralised.{unit}.{part}"] = needed if math.isfinite(value) else "nobody"
    maps = ((f"{int(agents):,}", list(own)) for agents, own in reading.grouped(folder / "clusters.csv", "agents"))
    for (agents, own), size in zip(maps, ("few", "many", "most"), strict=True):
        shares = (f"{latex_text(row['first'])} ({_percent(float(row['part of the map']))})" for row in own)
        found |= {f"centralised.{size}": agents, f"centralised.{size}.first": "; ".join(shares)}
    split = {int(row["workers"]): float(row["speed-up"]) for row in reading.rows(folder / "passes.csv")}
    return found | {"centralised.workers": max(split), "centralised.gain": f"{split[max(split)]:.2f}"}


def _environment(results):
    found = json.loads((results / "convergence" / "about.json").read_text())["environment"]
    cores = "one core" if found["cores"] == 1 else f"{found['cores']} cores"
    return f"Python {found['python']}, NumPy {found['numpy']} and SciPy {found['scipy']} on {cores}"


def _percent(part):
    return rf"{100 * float(np.round(part, 3)):.0f}\,\%"


if __name__ == "__main__":
    main()
