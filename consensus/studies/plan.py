"""The plan of a study: the runs that it needs, those that are done, and what they say."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import consensus
from consensus import _checks
from consensus._arrays.digest import digest
from consensus.solvers import Solver
from consensus.studies.folder import check, write
from consensus.studies.grid import Grid, Point, at_end
from consensus.studies.measure import Measure, Outcome, Value
from consensus.studies.runs import Job, called, read, read_case

_MOST = 40  # times that grids grow


class Tuned(NamedTuple):
    """A grid in a case: the points tried, the best one (None before they have all run), and whether it lies inside."""

    points: list[Point]
    best: Point | None
    inside: str


@dataclass
class Plan:
    """The runs of a study, whose arguments are the fields; ``cells`` are the combinations of values.

    ``identity`` is the digest of the case, ``about`` what the folder must say.
    """

    case: Callable[..., Any]
    identity: str
    about: dict[str, Any]
    cells: list[dict[str, Any]]
    solvers: Mapping[str, Solver | Grid]
    seeds: list[int]
    tuning_seeds: list[int]
    measure: Measure
    rounds: int
    folder: Path
    reference: Callable[[Any], float] | None
    _seen: dict[str, Outcome] = field(default_factory=dict)
    _jobs: dict[tuple[int, str, int, Point | None], Job] = field(default_factory=dict)
    _lowest: dict[tuple[int, int], float] = field(default_factory=dict)
    _values: dict[tuple[str, float], Value] = field(default_factory=dict)

    @property
    def grids(self) -> list[str]:
        """The names of solvers that are tuned."""
        return [label for label, solver in self.solvers.items() if isinstance(solver, Grid)]

    def job(self, cell: int, label: str, seed: int, point: Point | None = None) -> Job:
        """Return a run; of a grid, that of a point."""
        key = cell, label, seed, point
        if key in self._jobs:
            return self._jobs[key]
        solver, setting = self.solvers[label], ""
        if isinstance(solver, Grid):
            assert point is not None, "a grid runs at its points"
            setting, solver = solver.shown(point), solver.solver(point)
        over = self.cells[cell]
        name = digest(self.identity, dict(over), seed, solver, self.rounds, consensus.__version__)
        self._jobs[key] = Job(cell, over, seed, label, setting, solver, seed in self.tuning_seeds, name)
        return self._jobs[key]

    def outcome(self, name: str) -> Outcome | None:
        """Return what is known of the run of this name; None if it is not done."""
        if name not in self._seen:
            found = read(self.folder / "runs" / f"{name}.npz")
            if found is None:
                return None
            self._seen[name] = found
        return self._seen[name]

    def tuned(self, cell: int) -> tuple[dict[str, Tuned], list[Job]]:
        """Return the grids of a case as they stand, and the runs that are missing for them to go on."""
        points = {label: self.solvers[label].points() for label in self.grids}  # type: ignore[union-attr]  # they are grids
        if not points:
            return {}, []
        others = (
            [label for label in self.solvers if label not in points] if self.measure.relative and not self.reference else []
        )
        for turn in range(_MOST + 1):
            jobs = {(label, None): [self.job(cell, label, seed) for seed in self.tuning_seeds] for label in others} | {
                (label, point): [self.job(cell, label, seed, point) for seed in self.tuning_seeds]
                for label, tried in points.items()
                for point in tried
            }
            missing = [job for runs in jobs.values() for job in runs if self.outcome(job.name) is None]
            if missing:
                return {label: Tuned(tried, None, "") for label, tried in points.items()}, missing
            outcomes = {key: [self._seen[job.name] for job in runs] for key, runs in jobs.items()}
            levels = [
                self.level(cell, seed, [runs[k] for runs in outcomes.values()]) for k, seed in enumerate(self.tuning_seeds)
            ]
            merits = {
                key: self.measure.merit(runs, levels, self.rounds) for key, runs in outcomes.items() if key[1] is not None
            }
            tuned, grown = {}, False
            for label, tried in list(points.items()):
                grid = self.solvers[label]
                assert isinstance(grid, Grid)
                best = min(tried, key=lambda point: (merits[label, point], tried.index(point)))
                new = [near for near in grid.beside(best, tried) if near not in tried]
                inside = (
                    "NO: at an edge"
                    if new or at_end(grid, best)
                    else "NO: without a number"
                    if merits[label, best].lost
                    else "yes"
                )
                tuned[label] = Tuned(tried, best, inside)
                grown = grown or bool(new)
                points[label] = tried + new
            if not grown or turn == _MOST:
                return tuned, []
        raise AssertionError("the last turn returns")

    def odd(self) -> str:
        """Return a clause on the solvers whose best settings do not lie inside their grids; empty if all do."""
        tuned = [self.tuned(cell)[0] for cell in range(len(self.cells))]
        found = dict.fromkeys(label for grids in tuned for label, grid in grids.items() if grid.inside != "yes")
        return f"; not inside its grid in every case: {', '.join(found)}" if found else ""

    def failures(self) -> dict[str, tuple[int, str]]:
        """Return for each solver of which runs of the report failed or diverged how many, and why the first did."""
        found: dict[str, tuple[int, str]] = {}
        for cell in self.reported(partly=True):
            for label, runs in cell.items():
                for reason in (run.reason for run in runs if run.failed):
                    count, first = found.get(label, (0, reason))
                    found[label] = count + 1, first
        return found

    def report(self, cell: int, tuned: Mapping[str, Tuned]) -> dict[str, list[Job]]:
        """Return the runs of the report in a case, those of grids where they are tuned."""
        found = {}
        for label in self.solvers:
            best = tuned[label].best if label in tuned else None
            if label not in tuned or best is not None:
                found[label] = [self.job(cell, label, seed, best) for seed in self.seeds]
        return found

    def missing(self) -> list[Job]:
        """Return the runs that can be done now."""
        jobs: dict[str, Job] = {}
        for cell in range(len(self.cells)):
            tuned, missing = self.tuned(cell)
            report = [job for runs in self.report(cell, tuned).values() for job in runs]
            missing = missing + [job for job in report if self.outcome(job.name) is None]
            jobs |= {job.name: job for job in sorted(missing, key=lambda job: job.seed)}  # a seed's problem stays
        return list(jobs.values())

    def planned(self) -> dict[str, None]:
        """Return the names of all runs that are known so far to be needed, with stand-ins for those of grids not yet tuned."""
        names: dict[str, None] = {}
        for cell in range(len(self.cells)):
            tuned, missing = self.tuned(cell)
            names |= dict.fromkeys(job.name for job in missing)
            for label, grid in tuned.items():
                names |= {self.job(cell, label, seed, point).name: None for point in grid.points for seed in self.tuning_seeds}
            report = self.report(cell, tuned)
            names |= {job.name: None for runs in report.values() for job in runs}
            names |= {f"{cell} {label} {seed}": None for label in self.solvers if label not in report for seed in self.seeds}
        return names

    def level(self, cell: int, seed: int, outcomes: Sequence[Outcome]) -> float:
        """Return the level of the measure in a case with a seed, of which these are the outcomes."""
        lowest = None
        if self.reference is not None:
            if (cell, seed) not in self._lowest:
                path = self.folder / "runs" / f"{digest(self.identity, dict(self.cells[cell]), seed, self.reference)}.json"
                if not path.exists():
                    made = called(self.case, self.cells[cell], seed)
                    write(path, _checks.number("what reference returns", self.reference(made.problem)))
                self._lowest[cell, seed] = json.loads(path.read_text())
            lowest = self._lowest[cell, seed]
        return self.measure.level_of(outcomes, lowest)

    def reported(self, partly: bool = False) -> list[dict[str, list[Outcome]]]:
        """Return for each case the outcomes of every solver, one for each seed; ``partly`` those that there are."""
        check(self.folder, self.about)
        found, missing, total = [], 0, 0
        for cell in range(len(self.cells)):
            report = self.report(cell, self.tuned(cell)[0])
            there = {
                label: [self.of_case(one, job) for job in runs if (one := self.outcome(job.name)) is not None]
                for label, runs in report.items()
            }
            total += len(self.solvers) * len(self.seeds)
            missing += len(self.solvers) * len(self.seeds) - sum(map(len, there.values()))
            found.append({label: runs for label, runs in there.items() if runs})
        if missing and not partly:
            raise RuntimeError(
                f"{missing} of the {total} runs of the report are missing in {self.folder}: study.run() does them"
            )
        return found

    def of_case(self, outcome: Outcome, job: Job) -> Outcome:
        """Return the outcome of a run with its seed, and the limits that its case gave it."""
        return outcome._replace(seed=job.seed, limits=read_case(self.folder, job.over, job.seed)["limits"])

    def measured(self) -> list[dict[str, list[Value]]]:
        """Return for each case the measure of every solver, one for each seed."""
        found, short = [], dict.fromkeys(self.solvers, 0)
        for cell, outcomes in enumerate(self.reported()):
            levels = [self.level(cell, seed, [runs[k] for runs in outcomes.values()]) for k, seed in enumerate(self.seeds)]
            values = {
                label: [self.value(run, level) for run, level in zip(runs, levels, strict=True)]
                for label, runs in outcomes.items()
            }
            if self.measure.cost and not self.measure.after:
                values = with_budgets(
                    values, {label: [self.measure.budget(run, self.rounds) for run in runs] for label, runs in outcomes.items()}
                )
            found.append(values)
            for label, runs in outcomes.items():
                short[label] += sum(self.measure.short(run, self.rounds) for run in runs)
        if few := [f"{count} of {label}" for label, count in short.items() if count]:
            allowed = sorted({name for runs in outcomes.values() for run in runs for name in run.limits})
            more = f"let the case allow more {' and '.join(allowed)}" if allowed else "take more rounds"
            text = f"{self.measure.text!r} is the last value of runs that spend less in all their rounds"
            warnings.warn(f"{text} ({', '.join(few)}): {more}", stacklevel=3)
        return found

    def value(self, outcome: Outcome, level: float) -> Value:
        """Return the measure of an outcome."""
        key = str(outcome.path), level
        if key not in self._values:
            self._values[key] = self.measure.value(outcome, level, self.rounds)
        return self._values[key]


def with_budgets(values: Mapping[str, list[Value]], budgets: Mapping[str, list[float]]) -> dict[str, list[Value]]:
    """Return values in which runs that spent nothing have the budget of the solver's other runs, or the largest of all."""
    known = {label: [number for number in numbers if math.isfinite(number)] for label, numbers in budgets.items()}
    most = max((number for numbers in known.values() for number in numbers), default=math.inf)
    return {
        label: [value if math.isfinite(value.number) else Value(max(known[label], default=most), True) for value in own]
        for label, own in values.items()
    }
