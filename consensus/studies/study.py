"""Studies: methods compared over cases and seeds, each tuned fairly."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import consensus
from consensus import _checks
from consensus._arrays.digest import digest
from consensus._arrays.files import whole
from consensus._arrays.progress import bar
from consensus.errors import RunError
from consensus.solvers import Solver
from consensus.studies import figures, statistics
from consensus.studies.arguments import cases_over, seeds_of, solvers_of
from consensus.studies.folder import alone, check, write
from consensus.studies.frame import StudyTable
from consensus.studies.grid import Grid, Point, plain
from consensus.studies.measure import Measure, Outcome, Value
from consensus.studies.runs import Job, all_of, called, options_of, read

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TUNING = 1000  # the first of the seeds for tuning, if their number is given
_MOST = 40  # times that grids grow
_LIVE = 5.0  # seconds between two drawings
_LINE = 10.0  # seconds between two lines of the log


class Tuned(NamedTuple):
    """A grid in a case: the points tried, the best one (None before they have all run), and whether it lies inside."""

    points: list[Point]
    best: Point | None
    inside: bool


class Study:
    """A comparison of solvers over cases and seeds: tuned, run, resumed, and shown with bands and intervals.

    A *case* is a function of the seed and a value of each name in ``over``; it returns a problem and a network, or these and a
    dictionary of options of :func:`consensus.solve`, such as a test set. All solvers begin at the start that the seed draws, on
    the same data and network, with the same number of rounds.

    A :class:`Grid` is tuned in each case by the ``measure``, its median over the tuning seeds, which the report does not use;
    of settings that do not get there the one with the lowest column is best. If the measure is relative to the best reached by
    anyone, solvers without a grid run on the tuning seeds, too.

    Every run is one file in ``folder / "runs"``, whose name is a digest of the case, its values, the solver's settings, the
    seed and the version of the package. No run is done twice: after ctrl-C or a crash the same call goes on, and seeds, solvers
    and values may be added. A run under way when the process ends is begun again, unless the case returns the option ``every``:
    then it goes on from its last checkpoint.

    Parameters
    ----------
    case : callable
        ``case(seed, **values)``.
    over : mapping of str to sequence, optional
        The values of each name: there is a case for every combination.
    seeds : int or sequence of int
        The seeds of the report; a number n stands for 0, ..., n - 1.
    tuning_seeds : int or sequence of int
        The seeds of grids; a number n stands for 1000, ..., 999 + n.
    solvers : mapping of str to Solver or Grid
        What is compared, by the names in tables and figures.
    measure : str or callable
        What counts, less being better: ``"exchanges to objective 1%"``, the first count of a column of the history from which
        on another one stays at or below a level; ``"objective after 1000 exchanges"``, a column once so much was spent; or a
        function of a :class:`consensus.Result`. A level in percent is the part that is left of the gap between the start and
        the lowest value that any of the solvers reaches from there, or the ``reference``.
    rounds : int
        The rounds of every run, at most. A level that is missed counts as what all these rounds cost, and is marked by ``>``.
    folder : path
        The folder of the study. It is new, empty, or that of this study.
    reference : callable, optional
        ``reference(problem)`` returns the lowest value of the measure's column, for levels in percent.

    Raises
    ------
    TypeError, ValueError
        If the arguments do not fit each other; before any work.

    Examples
    --------
    >>> import tempfile, numpy as np, consensus, topologies
    >>> from consensus.solvers import DGD, EXTRA
    >>> from consensus.studies import Grid, Study
    >>> def case(seed, graph):
    ...     centres = np.random.default_rng(seed).standard_normal((8, 3))
    ...     problem = consensus.Problem.from_functions(
    ...         lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=8, parameters=3, lipschitz=2.0)
    ...     return problem, getattr(topologies, graph)(8)
    >>> study = Study(case, over={"graph": ["ring", "star"]}, seeds=4, tuning_seeds=2, rounds=100,
    ...               solvers={"EXTRA": EXTRA(), "DGD": Grid(DGD, step_size=[0.01, 0.03])},
    ...               measure="exchanges to objective 1%", folder=tempfile.mkdtemp())
    >>> table = study.run().table()
    >>> table.caption
    'exchanges to objective 1%: median [quartiles] of 4 seeds'
    >>> table.shape, study.grids()["inside"].tolist()
    ((2, 2), ['yes', 'yes'])
    """

    def __init__(
        self,
        case: Callable[..., Any],
        *,
        over: Mapping[str, Sequence[Any]] | None = None,
        seeds: int | Sequence[int] = 10,
        tuning_seeds: int | Sequence[int] = 3,
        solvers: Mapping[str, Solver | Grid],
        measure: str | Callable[[Any], float],
        rounds: int,
        folder: str | os.PathLike[str],
        reference: Callable[[Any], float] | None = None,
    ) -> None:
        if not callable(case):
            raise TypeError(f"case must be a function: case(seed, ...) -> problem, network; got {_checks.shown(case)}")
        self.case, self.over = case, cases_over(case, over)
        self.seeds = seeds_of("seeds", seeds, 0, 1)
        self.solvers = solvers_of(solvers)
        self.tuning_seeds = seeds_of("tuning_seeds", tuning_seeds, _TUNING, int(any(self._grids)))
        if shared := sorted(set(self.seeds) & set(self.tuning_seeds)):
            raise ValueError(
                f"tuning_seeds must be other ones than seeds, as the report is not to be tuned on; both have {shared}"
            )
        self.measure, self.rounds = Measure.of(measure), _checks.count("rounds", rounds)
        self.folder = _checks.path("folder", folder)
        if reference is not None and not callable(reference):
            raise TypeError(f"reference must be a function of a problem; got {_checks.shown(reference)}")
        if reference is not None and not self.measure.relative:
            raise ValueError(
                f"reference is for a measure relative to it, such as 'exchanges to objective 1%'; got {self.measure.text!r}"
            )
        self.reference = reference
        self.cells = [dict(zip(self.over, values, strict=True)) for values in itertools.product(*self.over.values())]
        self._identity = digest(case)
        self._about = {"case": getattr(case, "__name__", ""), "digest": self._identity, "over": list(self.over)}
        self._seen: dict[str, Outcome] = {}
        self._jobs: dict[tuple[int, str, int, Point | None], Job] = {}
        self._lowest: dict[tuple[int, int], float] = {}
        self._values: dict[tuple[str, float], Value] = {}

    def __repr__(self) -> str:
        return (
            f"Study({getattr(self.case, '__name__', type(self.case).__name__)}, {len(self.cells)} cases, {len(self.solvers)} "
            f"solvers, {len(self.seeds)} seeds, measure={self.measure.text!r}, folder={str(self.folder)!r})"
        )

    # Running

    def run(self, workers: int = 1, *, progress: bool = True, live: bool = False) -> Study:
        """Do all runs that are missing.

        Parameters
        ----------
        workers : int
            How many runs are done at once, each in a process of its own with one thread of BLAS. The results do not depend on
            it.
        progress : bool
            Whether to show a bar in a terminal or notebook, elsewhere a line of the log ``consensus`` every ten seconds or so:
            what is done, what ran last, and how long it will take.
        live : bool
            Whether to draw the measure's column every few seconds: in a notebook, in a window, or into ``folder / "live.png"``.

        Returns
        -------
        Study
            This study.

        Raises
        ------
        CaseError
            If the case raises an error, or returns something else.
        ValueError, TypeError
            If a solver does not fit a case, if a run has no column of the measure, if the folder is that of another study or
            another process works in it; before any work.
        KeyboardInterrupt
            On ctrl-C: what is done is kept, and the same call goes on.
        """
        workers, live = _checks.count("workers", workers), _checks.flag("live", live)
        with alone(self.folder, self._about):
            self._check()
            self._run_missing(workers, _checks.flag("progress", progress), live)
        return self

    def _run_missing(self, workers: int, progress: bool, live: bool) -> None:
        told: set[tuple[str, str]] = set()
        shown = time.monotonic()
        runs = self.folder / "runs"
        drawn = figures.Live(self.folder / "live.png") if live else None
        with bar(progress, desc="study", unit="run") as line:
            try:
                while missing := self._missing():
                    known = self._planned()
                    line.total = len(known)
                    done = sum(self._outcome(name) is not None for name in known)
                    line.update(done - line.n)
                    for job, texts in all_of(self.case, self._identity, missing, self.rounds, runs, workers):
                        done += 1
                        what = ", ".join(
                            filter(None, [*map(plain, job.over.values()), job.label, job.setting, f"seed {job.seed}"])
                        )
                        line.set_postfix_str(what, refresh=False)
                        line.update()
                        for text in texts if not job.tuning else ():
                            if (job.label, text) not in told:
                                told.add((job.label, text))
                                warnings.warn(f"{what}: {text}", stacklevel=4)
                        now = time.monotonic()
                        if progress and line.disable and now - shown > _LINE:
                            shown = now
                            logging.getLogger("consensus").info("study: run %d of %d or more, %s", done, len(known), what)
                        if drawn is not None and drawn.due(_LIVE):
                            drawn.show(self.plot)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"stopped by the user: what is done is kept in {self.folder}, and the same call goes on from there"
                ) from None
        if drawn is not None:
            drawn.show(self.plot)

    def _check(self) -> None:
        """Call every case once, and try every solver in it, in no rounds, before any work."""
        path = self.folder / "data.json"
        data = json.loads(path.read_text()) if path.exists() else {}
        for place, over in enumerate(self.cells):
            made = called(self.case, over, self.seeds[0])
            name = digest(dict(over), self.seeds[0])
            found = digest(*made.problem.digests())
            if data.setdefault(name, found) != found:
                raise ValueError(
                    f"the data of case {self._cell(place)!r} are not those of the runs in {self.folder}: a file has "
                    "changed; give another folder"
                )
            options = options_of(made, self.seeds[0], self.rounds) | {"rounds": 0}
            for label, solver in self.solvers.items():
                first = solver.solver(solver.points()[0]) if isinstance(solver, Grid) else solver
                where = f"solver {label!r} does not fit case {self._cell(place)!r}"
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        history = consensus.solve(made.problem, made.network, first, **options).history
                except RunError:
                    continue  # the run's own
                except (TypeError, ValueError) as error:
                    raise type(error)(f"{where}: {error}") from error
                for column in self.measure.columns:
                    if column not in history:
                        raise ValueError(
                            f"measure {self.measure.text!r} needs the column {column!r}, which runs of {label!r} do not have; "
                            f"there are {', '.join(history)}"
                        )
        write(path, data)

    # What there is to do, and what is known

    @property
    def _grids(self) -> list[str]:
        return [label for label, solver in self.solvers.items() if isinstance(solver, Grid)]

    def _cell(self, place: int) -> str:
        return ", ".join(plain(value) for value in self.cells[place].values())

    def _job(self, cell: int, label: str, seed: int, point: Point | None = None) -> Job:
        key = cell, label, seed, point
        if key in self._jobs:
            return self._jobs[key]
        solver, setting = self.solvers[label], ""
        if isinstance(solver, Grid):
            assert point is not None, "a grid runs at its points"
            setting, solver = solver.shown(point), solver.solver(point)
        over = self.cells[cell]
        name = digest(self._identity, dict(over), seed, solver, self.rounds, consensus.__version__)
        self._jobs[key] = Job(cell, over, seed, label, setting, solver, seed in self.tuning_seeds, name)
        return self._jobs[key]

    def _outcome(self, name: str) -> Outcome | None:
        if name not in self._seen:
            found = read(self.folder / "runs" / f"{name}.npz")
            if found is None:
                return None
            self._seen[name] = found
        return self._seen[name]

    def _tuned(self, cell: int) -> tuple[dict[str, Tuned], list[Job]]:
        """Return the grids of a case as they stand, and the runs that are missing for them to go on."""
        points = {label: self.solvers[label].points() for label in self._grids}  # type: ignore[union-attr]  # they are grids
        if not points:
            return {}, []
        others = (
            [label for label in self.solvers if label not in points] if self.measure.relative and not self.reference else []
        )
        for turn in range(_MOST + 1):
            jobs = {(label, None): [self._job(cell, label, seed) for seed in self.tuning_seeds] for label in others} | {
                (label, point): [self._job(cell, label, seed, point) for seed in self.tuning_seeds]
                for label, tried in points.items()
                for point in tried
            }
            missing = [job for runs in jobs.values() for job in runs if self._outcome(job.name) is None]
            if missing:
                return {label: Tuned(tried, None, False) for label, tried in points.items()}, missing
            outcomes = {key: [self._seen[job.name] for job in runs] for key, runs in jobs.items()}
            levels = [
                self._level(cell, seed, [runs[k] for runs in outcomes.values()]) for k, seed in enumerate(self.tuning_seeds)
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
                tuned[label] = Tuned(tried, best, not new)
                grown = grown or bool(new)
                points[label] = tried + new
            if not grown or turn == _MOST:
                return tuned, []
        raise AssertionError("the last turn returns")

    def _report(self, cell: int, tuned: Mapping[str, Tuned]) -> dict[str, list[Job]]:
        """Return the runs of the report in a case, those of grids where they are tuned."""
        found = {}
        for label in self.solvers:
            best = tuned[label].best if label in tuned else None
            if label not in tuned or best is not None:
                found[label] = [self._job(cell, label, seed, best) for seed in self.seeds]
        return found

    def _missing(self) -> list[Job]:
        jobs: dict[str, Job] = {}
        for cell in range(len(self.cells)):
            tuned, missing = self._tuned(cell)
            report = [job for runs in self._report(cell, tuned).values() for job in runs]
            missing = missing + [job for job in report if self._outcome(job.name) is None]
            jobs |= {
                job.name: job for job in sorted(missing, key=lambda job: job.seed)
            }  # of one seed in turn: its problem stays
        return list(jobs.values())

    def _planned(self) -> dict[str, None]:
        """Return the names of all runs that are known so far to be needed, with stand-ins for those of grids not yet tuned."""
        names: dict[str, None] = {}
        for cell in range(len(self.cells)):
            tuned, missing = self._tuned(cell)
            names |= dict.fromkeys(job.name for job in missing)
            for label, grid in tuned.items():
                names |= {self._job(cell, label, seed, point).name: None for point in grid.points for seed in self.tuning_seeds}
            report = self._report(cell, tuned)
            names |= {job.name: None for runs in report.values() for job in runs}
            names |= {f"{cell} {label} {seed}": None for label in self.solvers if label not in report for seed in self.seeds}
        return names

    def _level(self, cell: int, seed: int, outcomes: Sequence[Outcome]) -> float:
        lowest = None
        if self.reference is not None:
            if (cell, seed) not in self._lowest:
                path = self.folder / "runs" / f"{digest(self._identity, dict(self.cells[cell]), seed, self.reference)}.json"
                if not path.exists():
                    made = called(self.case, self.cells[cell], seed)
                    write(path, _checks.number("what reference returns", self.reference(made.problem)))
                self._lowest[cell, seed] = json.loads(path.read_text())
            lowest = self._lowest[cell, seed]
        return self.measure.level_of(outcomes, lowest)

    def _reported(self, partly: bool = False) -> list[dict[str, list[Outcome]]]:
        """Return for each case the outcomes of every solver, one for each seed; ``partly`` those that there are."""
        check(self.folder, self._about)
        found, missing, total = [], 0, 0
        for cell in range(len(self.cells)):
            report = self._report(cell, self._tuned(cell)[0])
            outcomes = {label: [self._outcome(job.name) for job in runs] for label, runs in report.items()}
            there = {label: [one for one in runs if one is not None] for label, runs in outcomes.items()}
            total += len(self.solvers) * len(self.seeds)
            missing += len(self.solvers) * len(self.seeds) - sum(map(len, there.values()))
            found.append({label: runs for label, runs in there.items() if runs})
        if missing and not partly:
            raise RuntimeError(
                f"{missing} of the {total} runs of the report are missing in {self.folder}: study.run() does them"
            )
        return found

    def _measured(self) -> list[dict[str, list[Value]]]:
        """Return for each case the measure of every solver, one for each seed."""
        found = []
        for cell, outcomes in enumerate(self._reported()):
            levels = [self._level(cell, seed, [runs[k] for runs in outcomes.values()]) for k, seed in enumerate(self.seeds)]
            found.append(
                {label: [self._value(run, level) for run, level in zip(runs, levels)] for label, runs in outcomes.items()}
            )
        return found

    def _value(self, outcome: Outcome, level: float) -> Value:
        key = str(outcome.path), level
        if key not in self._values:
            self._values[key] = self.measure.value(outcome, level, self.rounds)
        return self._values[key]

    # Tables and figures

    def _title(self, what: str) -> str:
        count = len(self.seeds)
        return f"{self.measure.text}: {what} of {count} seed{'s' if count > 1 else ''}"

    def table(self, show: str = "median [quartiles]") -> StudyTable:
        """Return the measure of every solver in every case.

        Parameters
        ----------
        show : {"median [quartiles]", "median [range]"}
            The interval over seeds. ``>`` marks what a run did not reach within its rounds; how many did is in brackets.

        Returns
        -------
        pandas.DataFrame
            Rows solvers, columns cases, texts; ``.caption`` says what they are. ``.to_latex()`` and ``.to_markdown()`` have it,
            too.
        """
        inside = _checks.choice("show", show, tuple(statistics.INTERVALS))
        cells = self._measured()
        rows = [
            {"solver": label, **{place: statistics.cell(cell[label], inside) for place, cell in enumerate(cells)}}
            for label in self.solvers
        ]
        made = StudyTable.of(rows, ["solver"], self._title(show))
        made.columns = self._columns()
        return made

    def _columns(self) -> Any:  # noqa: ANN401  # an index of pandas
        import pandas

        if not self.over:
            return [self.measure.text]
        texts = [tuple(plain(value) for value in cell.values()) for cell in self.cells]
        if len(self.over) == 1:
            return pandas.Index([text for (text,) in texts], name=next(iter(self.over)))
        return pandas.MultiIndex.from_tuples(texts, names=list(self.over))

    def runs(self) -> StudyTable:
        """Return a row for every run that is done: what it was, why it ended, and its file; one that diverged or failed, too.

        Returns
        -------
        pandas.DataFrame
            The rows.
        """
        check(self.folder, self._about)
        rows = []
        for cell in range(len(self.cells)):
            tuned = self._tuned(cell)[0]
            jobs = [
                self._job(cell, label, seed, point)
                for label, grid in tuned.items()
                for point in grid.points
                for seed in self.tuning_seeds
            ]
            if tuned and self.measure.relative and not self.reference:
                jobs += [
                    self._job(cell, label, seed) for label in self.solvers if label not in tuned for seed in self.tuning_seeds
                ]
            jobs += [job for runs in self._report(cell, tuned).values() for job in runs]
            for job in jobs:
                outcome = self._outcome(job.name)
                if outcome is not None:
                    for_what = {"for": "tuning" if job.tuning else "report", "rounds": outcome.rounds, "ended": outcome.reason}
                    who = {"solver": job.label, "setting": job.setting, "seed": job.seed}
                    rows.append({**job.over, **who, **for_what, "file": outcome.path.name})
        return StudyTable.of(rows, [*self.over, "solver"], f"runs in {self.folder}")

    def grids(self) -> StudyTable:
        """Return what was tried on the grids, the best setting in each case, and whether it lies inside its grid.

        Returns
        -------
        pandas.DataFrame
            A row for each case and grid.
        """
        self._reported()
        rows = []
        for cell, over in enumerate(self.cells):
            for label, tuned in self._tuned(cell)[0].items():
                grid = self.solvers[label]
                assert isinstance(grid, Grid)
                assert tuned.best is not None, "all runs are there"
                values = [list(dict.fromkeys(point[k] for point in tuned.points)) for k in range(len(grid.axes))]
                for axis in values:
                    with contextlib.suppress(TypeError):
                        axis.sort()
                tried = "; ".join(
                    f"{name}: {', '.join(map(plain, axis))}" for name, axis in zip(grid.axes, values, strict=True)
                )
                known = {"best": grid.shown(tuned.best), "inside": "yes" if tuned.inside else "NO: at an edge", "tried": tried}
                count = len(tuned.points) * len(self.tuning_seeds)
                rows.append({**over, "solver": label, **known, "runs": count})
        count = len(self.tuning_seeds)
        caption = f"settings tuned by {self.measure.text}, median of {count} tuning seed{'s' if count > 1 else ''}"
        return StudyTable.of(rows, [*self.over, "solver"], caption)

    def differences(self, name: str) -> StudyTable:
        """Compare a solver with each of the others, paired over seeds.

        The ratio is the other's measure over that of ``name``: above one, ``name`` is better. Its interval is the percentile
        bootstrap of the median (9,999 resamples), ``p`` that of Wilcoxon's signed-rank test on logarithms, corrected by Holm
        for all rows. A level that was missed counts as the budget; how many missed it is shown.

        Parameters
        ----------
        name : str
            One of the solvers.

        Returns
        -------
        pandas.DataFrame
            A row for each case and other solver.

        Raises
        ------
        ValueError
            If there is no such solver, or the measure is not positive, so that ratios mean nothing.
        """
        _checks.choice("name", name, tuple(self.solvers))
        rows: list[dict[str, Any]] = []
        for over, cell in zip(self.cells, self._measured(), strict=True):
            for label in self.solvers:
                if label != name:
                    found = statistics.paired(self.measure.text, cell[name], cell[label])
                    rows.append({**over, "solver": label, **found})
        for row, p in zip(rows, statistics.holm([row["p"] for row in rows]), strict=True):
            row["p"] = p
        title = (
            f"{self.measure.text} over that of {name}: median ratio [95%] of {len(self.seeds)} paired seeds, Wilcoxon with Holm"
        )
        return StudyTable.of(rows, [*self.over, "solver"], title)

    def rates(self, column: str = "stationarity") -> StudyTable:
        """Fit linear rates: the factor by which a column falls in a round, on the part of each run where it has begun to fall.

        Beside it stands the bound that theory gives for the solver, this problem and this network, where one is known: those of
        ``NIDS`` and ``ExactDiffusion`` on static networks [1]_, at the first seed. ``straight`` is the least R squared of the
        fits: well below one, the rate is not linear.

        Parameters
        ----------
        column : str
            A column of the history that goes to zero.

        Returns
        -------
        pandas.DataFrame
            A row for each case and solver; the interval is that between the quartiles over seeds.

        References
        ----------
        .. [1] S. A. Alghunaim, E. K. Ryu, K. Yuan and A. H. Sayed, "Decentralized proximal gradient algorithms with linear
           convergence rates", IEEE Transactions on Automatic Control 66(6) (2021).
        """
        rows = []
        for place, (over, cell) in enumerate(zip(self.cells, self._reported(), strict=True)):
            made = called(self.case, over, self.seeds[0])
            tuned = self._tuned(place)[0]
            for label, outcomes in cell.items():
                solver, best = self.solvers[label], tuned[label].best if label in tuned else None
                first = self._job(place, label, self.seeds[0], best).solver if isinstance(solver, Grid) else solver
                found = statistics.rate([outcome.history for outcome in outcomes], column)
                rows.append({**over, "solver": label, **found, "bound": statistics.bound(first, made.problem, made.network)})
        title = f"linear rate of {column} a round: median [quartiles] of {len(self.seeds)} seeds, beside the bound of theory"
        return StudyTable.of(rows, [*self.over, "solver"], title)

    def plot(self, column: str | None = None, x: str | None = None, *, log: bool = True, log_x: bool | None = None) -> Figure:
        """Draw a column of all solvers against another one: medians, and bands between the quartiles, a panel for each case.

        Runs that ended earlier are counted at their last value, those that diverged as infinite from there on. What is not done
        yet is left out.

        Parameters
        ----------
        column, x : str, optional
            Columns of the history, by default those of the measure. ``"gap"`` is the part that is left of the objective between
            the start and the lowest value that any solver reaches.
        log : bool
            Whether the axis of the column is logarithmic.
        log_x : bool, optional
            Whether that of x is, by default if x spans more than two decades.

        Returns
        -------
        matplotlib Figure
            The figure.
        """
        column = (self.measure.column or "objective") if column is None else column
        x = (self.measure.cost or "exchanges") if x is None else x
        for name, value in (("column", column), ("x", x)):
            if not isinstance(value, str):
                raise TypeError(f"{name} must be the name of a column of the history; got {_checks.shown(value)}")
        return figures.bands(
            self._reported(partly=True), [self._cell(k) for k in range(len(self.cells))], column, x, log, log_x
        )

    def profile(self, ax: Axes | None = None) -> Axes:
        """Draw performance profiles [1]_: on how many of the problems a solver is within a factor of the best one.

        A problem is a case with a seed; a level that was missed is never reached.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        matplotlib Axes
            The axes.

        References
        ----------
        .. [1] E. D. Dolan and J. J. More, "Benchmarking optimization software with performance profiles" (2002).
        """
        cells = self._measured()
        values = {label: [value for cell in cells for value in cell[label]] for label in self.solvers}
        ratios = statistics.ratios(self.measure.text, values)
        return figures.profile(ratios, self.measure.text, len(self.cells), len(self.seeds), _checks.axes(ax))

    def report(self) -> Path:
        """Write one HTML page with settings, versions, tables and figures; return its path, ``folder / "report.html"``.

        Returns
        -------
        Path
            The file, which needs no other one.
        """
        from consensus.studies.report import page

        path = self.folder / "report.html"
        text = page(self)
        with whole(path) as file:
            file.write(text.encode())
        return path

    def watch(self, column: str | None = None, x: str | None = None, every: float = _LIVE) -> None:
        """Draw :meth:`plot` again and again from what another process has done, until all runs are there, or ctrl-C.

        Parameters
        ----------
        column, x : str, optional
            As in :meth:`plot`.
        every : float
            Seconds between two drawings.
        """
        every = _checks.number("every", every, above=0)
        drawn = figures.Live(self.folder / "live.png")
        while True:
            drawn.show(lambda: self.plot(column, x))
            if not self._missing():
                return
            drawn.wait(every)
