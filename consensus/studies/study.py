"""Studies: methods compared over cases and seeds, each tuned fairly."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import consensus
from consensus import _checks
from consensus._arrays.digest import digest
from consensus._arrays.files import whole
from consensus._arrays.progress import bar
from consensus.errors import RunError
from consensus.solvers import Solver
from consensus.studies import figures, statistics
from consensus.studies.arguments import cases_over, seeds_of, solvers_of
from consensus.studies.folder import alone, check
from consensus.studies.frame import StudyTable
from consensus.studies.grid import Grid, named, plain
from consensus.studies.measure import Measure
from consensus.studies.plan import Plan
from consensus.studies.runs import called, case_file, check_repeats, options_of, remember, runner

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TUNING = 1000  # the first of the seeds for tuning, if their number is given
_LIVE = 5.0  # seconds between two drawings
_LINE = 10.0  # seconds between two lines of the log


class Study:
    """A comparison of solvers over cases and seeds: tuned, run, resumed, and shown with bands and intervals.

    A *case* is a function of the seed and a value of each name in ``over``; it returns a problem and a network, or these and a
    dictionary of options of :func:`consensus.solve`, such as a test set. All solvers begin at the start that the seed draws, on
    the same data and network, with the same number of rounds.

    A :class:`Grid` is tuned in each case by the ``measure`` on the tuning seeds, which the report does not use. Its best
    setting is the one with which most of these runs get there; of several that with the lowest median; of those that never get
    there that with the lowest column; of those that diverge that which does so last. If the measure is relative to the best
    reached by anyone, solvers without a grid run on the tuning seeds, too.

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
        The rounds of every run, at most. A level that is missed counts as what all these rounds cost, or what the case's
        ``exchanges`` or ``seconds`` allow, also in a run that ended early, and is marked by ``>``.
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
        self.tuning_seeds = seeds_of(
            "tuning_seeds", tuning_seeds, _TUNING, int(any(isinstance(solver, Grid) for solver in self.solvers.values()))
        )
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
        self._about = {"case": named(case), "digest": self._identity, "over": list(self.over)}
        self._plan = Plan(
            case=case,
            identity=self._identity,
            about=self._about,
            cells=self.cells,
            solvers=self.solvers,
            seeds=self.seeds,
            tuning_seeds=self.tuning_seeds,
            measure=self.measure,
            rounds=self.rounds,
            folder=self.folder,
            reference=reference,
        )

    def __repr__(self) -> str:
        return (
            f"Study({named(self.case)}, {len(self.cells)} cases, {len(self.solvers)} "
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
            If the case raises an error, returns something else, or does not return the same for the same seed.
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
        began = shown = time.monotonic()
        first: int | None = None
        drawn = figures.Live(self.folder / "live.png") if live else None
        with (
            bar(progress, desc="study", unit="run") as line,
            runner(self.case, self._identity, self.rounds, self.folder, workers) as do,
        ):
            try:
                while missing := self._plan.missing():
                    known = self._plan.planned()
                    line.total = len(known)
                    done = sum(self._plan.outcome(name) is not None for name in known)
                    line.update(done - line.n)
                    first = done if first is None else first
                    for job, texts in do(missing):
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
                            left = (now - began) / (done - first) * (len(known) - done)
                            text = "study: run %d of %d or more, %s; about %.0f s left"
                            logging.getLogger("consensus").info(text, done, len(known), what, left)
                        if drawn is not None and drawn.due(_LIVE):
                            drawn.show(self._drawing)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"stopped by the user: what is done is kept in {self.folder}, and the same call goes on from there"
                ) from None
        if drawn is not None:
            drawn.show(self._drawing)
        for label, (count, reason) in self._plan.failures().items():
            warnings.warn(f"{count} of the runs of {label!r} {reason}: runs() has all reasons", stacklevel=3)

    def _drawing(self) -> Figure:
        return self.plot("gap" if self.measure.column == "objective" else None)

    def _check(self) -> None:
        """Call every case once, and try every solver in it, in no rounds, before any work."""
        if not (self.folder / "cases").exists() and any((self.folder / "runs").glob("*.npz")):
            raise ValueError(f"{self.folder} has runs, but nothing in cases/ that says what they are on: give another folder")
        for place, over in enumerate(self.cells):
            known = (seed for seed in (*self.seeds, *self.tuning_seeds) if case_file(self.folder, over, seed).exists())
            seed = next(known, self.seeds[0])
            made = called(self.case, over, seed)
            if not case_file(self.folder, over, seed).exists():
                check_repeats(self.case, over, seed, made)
            remember(self.folder, over, seed, made)
            options = options_of(made, seed, self.rounds) | {"rounds": 0}
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
                    if history[column].ndim > 1:
                        raise ValueError(
                            f"measure {self.measure.text!r} needs one number a row; {column!r} has one for each agent: take "
                            "a function of a result"
                        )

    def _cell(self, place: int) -> str:
        return ", ".join(plain(value) for value in self.cells[place].values())

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
            Rows solvers, columns cases, texts; ``.caption`` says what they are, and which solvers' settings are at an edge of
            their grids. It is above the table wherever that is shown.
        """
        inside = _checks.choice("show", show, tuple(statistics.INTERVALS))
        cells = self._plan.measured()
        rows = [
            {"solver": label, **{place: statistics.cell(cell[label], inside) for place, cell in enumerate(cells)}}
            for label in self.solvers
        ]
        made = StudyTable.of(rows, ["solver"], self._title(show) + self._plan.odd())
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
            tuned = self._plan.tuned(cell)[0]
            jobs = [
                self._plan.job(cell, label, seed, point)
                for label, grid in tuned.items()
                for point in grid.points
                for seed in self.tuning_seeds
            ]
            if tuned and self.measure.relative and not self.reference:
                jobs += [
                    self._plan.job(cell, label, seed)
                    for label in self.solvers
                    if label not in tuned
                    for seed in self.tuning_seeds
                ]
            jobs += [job for runs in self._plan.report(cell, tuned).values() for job in runs]
            for job in jobs:
                outcome = self._plan.outcome(job.name)
                if outcome is not None:
                    for_what = {"for": "tuning" if job.tuning else "report", "rounds": outcome.rounds, "ended": outcome.reason}
                    who = {"solver": job.label, "setting": job.setting, "seed": job.seed}
                    rows.append({**job.over, **who, **for_what, "file": outcome.path.name})
        return StudyTable.of(rows, [*self.over, "solver"], f"runs in {self.folder}")

    def values(self) -> StudyTable:
        """Return the measure of every run of the report, for statistics of one's own.

        Returns
        -------
        pandas.DataFrame
            A row for each case, solver and seed: the ``value``, and whether it ``missed`` its level, so that the value is the
            budget, or diverged.
        """
        rows = [
            {**over, "solver": label, "seed": seed, "value": value.number, "missed": value.missed}
            for over, cell in zip(self.cells, self._plan.measured(), strict=True)
            for label, values in cell.items()
            for seed, value in zip(self.seeds, values, strict=True)
        ]
        return StudyTable.of(rows, [*self.over, "solver", "seed"], self._title("values"))

    def grids(self) -> StudyTable:
        """Return what was tried on the grids, the best setting in each case, and whether it lies inside its grid.

        Returns
        -------
        pandas.DataFrame
            A row for each case and grid.
        """
        self._plan.reported()
        rows = []
        for cell, over in enumerate(self.cells):
            for label, tuned in self._plan.tuned(cell)[0].items():
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
                known = {"best": grid.shown(tuned.best), "inside": tuned.inside, "tried": tried}
                count = len(tuned.points) * len(self.tuning_seeds)
                rows.append({**over, "solver": label, **known, "runs": count})
        count = len(self.tuning_seeds)
        caption = f"settings tuned by {self.measure.text} on {count} tuning seed{'s' if count > 1 else ''}"
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
        for over, cell in zip(self.cells, self._plan.measured(), strict=True):
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
        for place, (over, cell) in enumerate(zip(self.cells, self._plan.reported(), strict=True)):
            made = called(self.case, over, self.seeds[0])
            tuned = self._plan.tuned(place)[0]
            for label, outcomes in cell.items():
                solver, best = self.solvers[label], tuned[label].best if label in tuned else None
                first = self._plan.job(place, label, self.seeds[0], best).solver if isinstance(solver, Grid) else solver
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
            self._plan.reported(partly=True), [self._cell(k) for k in range(len(self.cells))], column, x, log, log_x
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
        cells = self._plan.measured()
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
        with warnings.catch_warnings(record=True) as caught:
            text = page(self)
        for said in dict.fromkeys((str(one.message), one.category) for one in caught):
            warnings.warn(*said, stacklevel=2)
        with whole(path) as file:
            file.write(text.encode())
        return path

    def watch(self, column: str | None = None, x: str | None = None, every: float = _LIVE) -> None:
        """Draw :meth:`plot` again and again from what another process has done, until all runs are there, or ctrl-C.

        Parameters
        ----------
        column, x : str, optional
            As in :meth:`plot`; by default the gap, if the measure is of the objective.
        every : float
            Seconds between two drawings.
        """
        every = _checks.number("every", every, above=0)
        drawn = figures.Live(self.folder / "live.png")
        while True:
            drawn.show(self._drawing if column is None and x is None else lambda: self.plot(column, x))
            if not self._plan.missing():
                return
            drawn.wait(every)
