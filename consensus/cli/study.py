"""Studies from a file of settings."""

from __future__ import annotations

import copy
import pprint
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from consensus import _checks
from consensus.cli.build import SOLVERS, attempt, make
from consensus.cli.config import Config, ConfigError, Key
from consensus.cli.run import RUN, Folder, labelled
from consensus.cli.setting import setting
from consensus.solvers import Solver

if TYPE_CHECKING:
    from consensus.studies import Grid, Study

CASE = ("data", "model", "network")  # tables of a case, whose settings a study may vary
STUDY = ("seeds", "tuning_seeds", "measure", "rounds", "folder", "over")
OPTIONS = tuple(name for name in RUN if name not in ("rounds", "seed"))  # which are those of the study


def study(config: Config, workers: int = 1, *, live: bool = False, folder: Folder = None) -> Study:
    """Compare the solvers of a TOML file over cases and seeds; what was done in the folder before is not done again.

    Parameters
    ----------
    config : Config
        The settings.
    workers : int
        How many runs are done at once.
    live : bool
        Whether to draw the figure every few seconds, in a window or into ``live.png`` in the folder.
    folder : path, optional
        The folder of the study, by default that of the file, or else ``results/`` and the file's name.

    Returns
    -------
    Study
        The study, with all runs done.

    Raises
    ------
    ConfigError
        If settings cannot be run; before any work.
    KeyboardInterrupt
        On ctrl-C: what is done is kept, and the same call goes on.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from consensus.cli import Config, study
    >>> values = {"data": {"name": "diabetes", "agents": 4}, "model": {"hidden": []}, "solver": [{"kind": "EXTRA"}],
    ...           "study": {"seeds": 2, "rounds": 20, "measure": "objective after 20 exchanges",
    ...                     "over": {"network": {"graph": ["ring", "star"]}}}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = study(Config(pathlib.Path("mine.toml"), values, {}), folder=folder).table()
    >>> table.columns.tolist()
    ['ring', 'star']
    """
    from consensus.studies import CaseError, Study

    workers, live = _checks.count("workers", workers), _checks.flag("live", live)
    config.table((), (*CASE, "run", "solver", "study"))
    given = dict(config.table(("study",), STUDY))
    for name in ("rounds", "seed"):
        if config.at(("run", name)) is not None:
            there = "rounds" if name == "rounds" else "seeds"
            raise config.error(("run", name), f"{name} is no setting of [run] in a study: give {there} in [study]")
    options = config.table(("run",), OPTIONS)
    for name in ("measure", "rounds"):
        if name not in given:
            example = '"exchanges to objective 1%"' if name == "measure" else "the number of rounds at most"
            raise config.error(("study",), f"[study] needs {name} = {example}")
    over = dict(_over(config, ()))
    settings = {name: config.at((name,)) for name in CASE if config.at((name,)) is not None}
    case = FileCase(settings | {"run": options}, config)
    given |= {"over": over, "solvers": _solvers(config), "folder": folder or given.get("folder", f"results/{config.path.stem}")}
    made = attempt(config, ("study",), Study, case, **given)
    try:
        return made.run(workers, live=live)
    except CaseError as error:
        if isinstance(error.__cause__, ConfigError):  # which names the line
            raise error.__cause__ from None
        raise config.error((), error) from error
    except (TypeError, ValueError, ImportError, OSError, MemoryError) as error:
        raise config.error(_place(config, str(error)), error) from error


@dataclass(frozen=True, repr=False)
class FileCase:
    """The case of a file: its problem, network and options of ``solve`` for a seed and the values that vary.

    Parameters
    ----------
    settings : dict
        What makes the case: a study's folder is that of these.
    config : Config
        The file.
    """

    settings: dict[str, Any]
    config: Config = field(compare=False)

    def __repr__(self) -> str:
        return pprint.pformat(self.settings, sort_dicts=False, width=100)

    def __call__(self, seed: int, **values: Any) -> tuple[Any, Any, dict[str, Any]]:  # noqa: ANN401
        config = self.config
        for name, value in values.items():
            key = tuple(name.split("."))
            config = changed(config, key, value, config.lines.get(("study", "over", *key)))
        problem, test, network = setting(config, seed)
        return problem, network, {"test": test} | self.settings["run"]


def changed(config: Config, key: Key, value: object, line: int | None = None) -> Config:
    """Return settings in which ``key`` has another value, which stands on a ``line``."""
    values = copy.deepcopy(config.values)
    table: Any = values
    for part in key[:-1]:
        table = table.setdefault(part, {}) if isinstance(part, str) else table[part]
    table[key[-1]] = value
    return replace(config, values=values, lines=config.lines | ({} if line is None else {key: line}))


def _over(config: Config, key: Key) -> Iterator[tuple[str, list[Any]]]:
    """Yield the names and values of what varies, such as ``network.graph``."""
    place = ("study", "over", *key)
    if not key or isinstance(config.at(place), dict):
        for name in config.table(place, CASE) if not key else config.at(place):
            yield from _over(config, (*key, name))
        return
    values, name = config.at(place), ".".join(map(str, key))
    if not isinstance(values, list) or not values:
        raise config.error(place, f'{name} must be a list of values, such as network.graph = ["ring", "star"]; got {values!r}')
    above = next((key[:n] for n in range(1, len(key)) if not isinstance(config.at(key[:n]), dict | list | None)), None)
    if above:
        raise config.error(place, f"{'.'.join(map(str, above))} is {config.at(above)!r} and no table: vary it as a whole")
    if config.at(key) is not None:
        raise config.error(key, f"{name} is both here and in [study.over]: leave one of them out")
    yield name, values


def _solvers(config: Config) -> dict[str, Solver | Grid]:
    """Return the solvers by label, or the grid where one has a setting ``{grid = [...]}``; every point of it is made."""
    listed = labelled(config)
    if not listed:
        raise config.error((), "a study needs [[solver]] tables, each with a kind")
    return {label: _solver(config, key) for label, key in listed.items()}


def _solver(config: Config, key: Key) -> Solver | Grid:
    from consensus.studies import Grid

    axes = {".".join(map(str, axis[len(key) :])): axis for axis in _grids(config, key)}
    if not axes:
        solver: Solver = make(config, key, SOLVERS)
        return solver

    given = {name: config.at((*axis, "grid")) for name, axis in axes.items()}
    shown = {name: _hashable(values) for name, values in given.items()}

    def tuned(**point: object) -> Solver:
        there = config
        for name, value in point.items():
            known = zip(shown[name], given[name], strict=True)
            there = changed(there, axes[name], next((table for text, table in known if text == value), value))
        solver: Solver = make(there, key, SOLVERS)
        return solver

    tuned.__name__ = str(config.at((*key, "kind")))
    grid = attempt(config, key, Grid, tuned, **shown)
    for point in grid.points():
        grid.solver(point)
    return grid


def _hashable(values: Any) -> Any:  # noqa: ANN401
    """Return the values of a grid, tables and lists as texts that differ as they do."""
    from consensus.studies.grid import plain

    if not isinstance(values, list):
        return values
    for text in (plain, repr):
        found = [text(value) if isinstance(value, dict | list) else value for value in values]
        if len(set(found)) == len(found):
            break
    return found


def _grids(config: Config, key: Key) -> Iterator[Key]:
    """Yield where a table has ``{grid = [...]}``."""
    found = config.at(key)
    if isinstance(found, dict) and "grid" in found and "kind" not in found:
        config.table(key, ("grid",))
        yield key
    elif isinstance(found, dict | list):
        for part in found if isinstance(found, dict) else range(len(found)):
            yield from _grids(config, (*key, part))


def _place(config: Config, message: str) -> Key:
    """Return the key of what a message of a study begins with: a solver, or a setting of the study or of its runs."""
    solver = next((key for label, key in labelled(config).items() if message.startswith(f"solver {label!r} ")), None)
    first = (message.partition(": ")[2] if solver else message).partition(" ")[0]
    there = [key for key in (("run", first), ("study", first)) if config.at(key) is not None]
    return there[0] if there else solver or ("study",)
