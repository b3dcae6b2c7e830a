"""Harness of the experiments: arguments, running what is missing, writing figures and tables."""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")  # writes files, also where there is no screen

import matplotlib.pyplot as plt
from tqdm import tqdm

from consensus import datasets, engines
from consensus.solve import ENGINES
from experiments.shared import cases, results, tuning
from experiments.shared.environment import environment

_SHOWN = {"dataset": "data set"}  # names of settings in tables


class Compared(NamedTuple):
    """What :meth:`Experiment.compare` found.

    Attributes
    ----------
    repeats : dict
        Outcomes of all seeds by key and measure, at the setting that is best by it.
    every : dict
        All outcomes, of trials, too, by key with the family's label, point and seed.
    """

    repeats: dict
    every: dict


class Experiment:
    """One experiment: its options, its runs, its figures and tables in a folder of its own.

    ``name`` is that of the script, and of the folder in ``--output``; ``about`` is for ``--help``. ``datasets``, ``agents``,
    ``repeats`` and ``rounds`` are defaults of these options, ``quick`` those that differ with ``--quick``. Without ``datasets``
    the experiment makes its own data.

    Attributes
    ----------
    datasets, agents, rounds
        As the user wants them; files by their names without suffix.
    seeds : list of int
        One for each repeat: ``--seed`` and the next ones. More repeats leave those that there are as they were.
    folder : Path
        Its figures and tables; the runs are in ``folder / "runs"``.
    """

    def __init__(self, name, about, arguments=None, *, datasets=(), agents=10, repeats=5, rounds=300, quick=None):
        usual = {"dataset": list(datasets), "agents": agents, "repeats": repeats, "rounds": rounds}
        parser = _parser(name, about, usual)
        options = parser.parse_args(arguments)
        if options.folds and options.repeats:
            parser.error("argument --folds: is the number of repeats, too; leave --repeats away")
        for option, value in (usual | (quick or {}) if options.quick else usual).items():
            if getattr(options, option) is None:
                setattr(options, option, value)
        self.name, self.agents, self.rounds = name, options.agents, options.rounds
        self._sources, self.folds = _sources(parser, options), options.folds
        self.datasets, self._cases = list(self._sources), {}
        self.seeds = [options.seed + repeat for repeat in range(options.folds or options.repeats)]
        self.quick, self.engine = options.quick, _engine(parser, options)
        self.folder = (options.output or Path("results", "quick" if options.quick else "")) / name
        try:
            (self.folder / "runs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error(f"argument --output: cannot write to {self.folder} ({error.strerror})")

    def case(self, dataset, agents, seed, **settings):
        """One of ``datasets`` as :func:`experiments.shared.cases.case` makes it, once, in folds if the user wants them."""
        key = dataset, agents, seed, *settings.items()
        if key not in self._cases:
            fold = cases.Fold(self.seeds.index(seed), self.folds) if self.folds else None
            self._cases[key] = cases.case(self._sources[dataset], agents, seed, fold=fold, **settings)
        return self._cases[key]

    def run(self, runs, what="runs"):
        """The outcomes of ``runs``, by the same keys; those that are complete in the folder are not done again."""
        folder, ask = self.folder / "runs", self.engine.broadcast  # under MPI the first rank's files count
        missing = ask(lambda: [key for key, run in runs.items() if not results.complete(folder, run)])
        silent = None if self.engine.root else True  # None: where standard error is no terminal
        shown = {"desc": f"{self.name}, {what}", "unit": "run", "disable": silent}
        with tqdm(total=len(runs), initial=len(runs) - len(missing), **shown) as bar:
            for key in missing:
                run = runs[key]
                bar.set_postfix_str(" ".join(map(str, run.settings.values())))
                try:
                    outcome = run.work(self.engine)
                except KeyboardInterrupt:
                    bar.close()
                    sys.exit("\nstopped; what is done is kept, and the same command goes on from there")
                ask(lambda: results.save(folder, run, outcome, environment(self.engine)))  # noqa: B023 (called at once)
                bar.update()
        return ask(lambda: {key: results.load(folder, run) for key, run in runs.items()})

    def repeat(self, make, curves, what="runs"):
        """Run ``make(curve, seed)`` for every curve and seed: a dictionary, the outcomes of all seeds by curve."""
        curves = list(dict.fromkeys(curves))
        found = self.run({(curve, seed): make(curve, seed) for curve in curves for seed in self.seeds}, what)
        return {curve: [found[curve, seed] for seed in self.seeds] for curve in curves}

    def train(self, names, curves, make, what="runs"):
        """The outcomes of runs on cases, a list for every curve with one for each seed.

        A curve is a tuple of settings, which ``names`` names. As a case of a study, ``make(*curve, seed=seed)`` returns a Case,
        a network, a solver and, if needed, a dictionary of options of :func:`experiments.shared.results.training`; or with None
        as its network a function of :mod:`experiments.shared.centralised`.
        """

        def run(curve, seed):
            return self._of(dict(zip(names, curve, strict=True)), seed, *make(*curve, seed=seed))

        return self.repeat(run, curves, what)

    def compare(self, names, families, make, merits, trials=1, what="choice of settings"):
        """The outcomes of solvers at their best settings, which are tuned on the first ``trials`` seeds: a Compared.

        ``families`` are a list of :class:`experiments.shared.tuning.Family` for each key, a tuple that ``names`` names.
        ``make(*key, solver, seed)`` is as in :meth:`train`, ``merits`` as in :func:`experiments.shared.tuning.tuned`, with
        lists of outcomes, one for each trial. What was tried is written as a table, ``grids``.
        """
        flat = {(*key, family.label): family for key, some in families.items() for family in some}

        def runs(points, seeds, what):
            wanted = {}
            for key, point in points:
                settings = dict(zip(names, key, strict=False)) | {"setting": flat[key].shown(point)}
                for seed in seeds:
                    made = make(*key[:-1], flat[key].make(*point), seed)
                    wanted[key, point, seed] = self._of(settings, seed, *made)
            return self.run(wanted, what)

        def tried(points):
            done = runs(points, self.seeds[:trials], what)
            return {at: [done[*at, seed] for seed in self.seeds[:trials]] for at in points}

        found = tuning.tuned(tried, flat, merits, quick=self.quick)
        measures = tuning.best(found, next(iter(found)), merits)
        best = {(*key, measure): tuning.chosen(found, key, measure, merits) for key in families for measure in measures}
        done = runs(dict.fromkeys(best.values()), self.seeds, "repeats")
        every = done | {
            (key, point, seed): run
            for key, points in found.items()
            for point, runs in points.items()
            for seed, run in zip(self.seeds, runs, strict=False)
        }
        self.table(tuning.grids(found, flat, merits, [*(_SHOWN.get(name, name) for name in names), "steps"]), "grids")
        return Compared({which: [done[*at, seed] for seed in self.seeds] for which, at in best.items()}, every)

    def _of(self, settings, seed, case, network, solver, options=None):
        settings = settings | {"agents": case.problem.agents, "seed": seed}
        options = {"rounds": self.rounds, "seed": seed} | (options or {})
        if network is None:
            return solver(settings, case, **options)
        return results.training(settings, case, network, solver, **options)

    def figure(self, figure, name="figure"):
        """Write a figure as PDF and PNG."""
        if self.engine.root:
            figure.savefig(self.folder / f"{name}.pdf", metadata={"CreationDate": None})  # the same figure, the same bytes
            figure.savefig(self.folder / f"{name}.png", dpi=150)
            print(f"figure  {self.folder / name}.png, .pdf")
        plt.close(figure)

    def table(self, table, name="table"):
        """Print a table, and write it as CSV, Markdown and LaTeX."""
        if self.engine.root:
            print(f"\n{table.markdown()}")
            table.write(self.folder, name)
            print(f"table   {self.folder / name}.csv, .md, .tex\n")


def _parser(name, about, usual):
    parser = argparse.ArgumentParser(prog=f"python -m experiments.{name}", description=about)
    add, default = parser.add_argument, {option: f"default: {value}" for option, value in usual.items()}
    parser.set_defaults(dataset=None, target=None, classes=False, folds=None)
    if usual["dataset"]:
        known = f"data sets, by name or as CSV, Parquet or npz files; default: {' '.join(usual['dataset'])}"
        add("--dataset", nargs="+", metavar="NAME", help=known)
        add("--target", metavar="COLUMN", help="of the files, to predict: a name or an index, -1 for the last")
        add("--classes", action="store_true", help="the files' targets are classes, even where they are numbers")
        add("--folds", type=_whole(2), help="cross-validation: so many repeats, each with another fold as its test part")
    add("--agents", type=_whole(1), help=f"agents in the network; {default['agents']}")
    add("--repeats", "--seeds", type=_whole(1), help=f"repeats, each with a seed of its own; {default['repeats']}")
    add("--rounds", type=_whole(1), help=f"rounds of a run; {default['rounds']}")
    add("--seed", type=_whole(0), default=0, help="of the first repeat; default: 0")
    add("--engine", choices=tuple(ENGINES), default="stacked", help="where the agents run; default: stacked")
    add("--workers", type=_whole(1), help="processes of --engine processes; default: one a core")
    add("--output", type=Path, metavar="FOLDER", help="default: results, or results/quick with --quick")
    add("--quick", action="store_true", help="a tiny version, to see that everything works")
    return parser


def _sources(parser, options):
    """The data sets by the names that figures and tables show."""
    target = options.target
    if target is not None and target.removeprefix("-").isdecimal():
        target = int(target)
    files = [name for name in options.dataset if name not in datasets.NAMES]
    if not files and (target is not None or options.classes):
        parser.error("arguments --target and --classes: go with a file as --dataset")
    if target is None and any(Path(name).suffix.lower() in (".csv", ".tsv", ".parquet") for name in files):
        parser.error("argument --target: the files' column to predict is needed, as a name or an index")
    found = {}
    for name in options.dataset:
        source = cases.Source(name, target, True if options.classes else None) if name in files else cases.Source(name)
        try:  # bad data are named before any work
            cases.load(*source)
        except (ValueError, OSError) as error:  # no need for a traceback
            sys.exit(f"error: {error}")
        if found.setdefault(Path(name).stem if name in files else name, source) != source:
            parser.error(f"argument --dataset: two files are called {Path(name).stem}; rename one")
    return found


def _whole(least):
    def number(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number >= {least}; got {text!r}")
        return int(text)

    return number


def _engine(parser, options):
    if options.workers and options.engine != "processes":
        parser.error(f"argument --workers: goes with --engine processes, not with {options.engine}")
    try:
        return getattr(engines, ENGINES[options.engine])(**({"workers": options.workers} if options.workers else {}))
    except (ImportError, ValueError) as error:
        parser.error(f"argument --engine: {error}")
