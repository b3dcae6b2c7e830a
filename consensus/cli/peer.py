"""A peer of a run, from the file that all of its peers have."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import consensus
from consensus import _checks
from consensus.cli.build import attempt
from consensus.cli.config import Config
from consensus.cli.run import RUN, output, solver_of
from consensus.cli.setting import trained
from consensus.tables.readers import ReadingOptions

TABLES = ("data", "model", "network", "output", "peers", "run", "solver")
OWN = [name for name in inspect.signature(consensus.data.own).parameters if name not in ("data", "engine", "reading", "seed")]


def peer(config: Config, me: str, resume: bool = False) -> consensus.Result:
    """Take part in a run of organisations, as the file says that all of them have.

    The checkpoint, the audit, the history, the result and the predictor are written into the folder of the results, under the
    name of this peer.

    Parameters
    ----------
    config : Config
        The settings.
    me : str
        Name of this peer in the table ``[peers]``.
    resume : bool
        Whether all peers go on from their checkpoints, after all of them had ended.

    Returns
    -------
    Result
        The result, with the iterates of all peers.

    Raises
    ------
    ConfigError
        If settings cannot be run.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from consensus.cli import Config, ConfigError, peer
    >>> try:
    ...     peer(Config(pathlib.Path("run.toml"), {"run": {"rounds": 20}, "data": {"name": "stays.csv"}}, {}), "oslo")
    ... except ConfigError as error:
    ...     print(error)
    run.toml: [data] needs target, the column to predict
    """
    _checks.flag("resume", resume)
    config.table((), TABLES)
    config.table(("network",), ("edges",))
    options: dict[str, Any] = dict(config.table(("run",), [name for name in RUN if name != "seconds"]))
    if "rounds" not in options:
        raise config.error(("run",), "[run] needs rounds = the number of rounds at most")
    seed = options.setdefault("seed", 0)
    chosen = dict(config.table(("data",), ("name", *OWN, *ReadingOptions.__annotations__)))
    for name, what in (("name", "this peer's file, which has the same name everywhere"), ("target", "the column to predict")):
        if name not in chosen:
            raise config.error(("data",), f"[data] needs {name}, {what}")
    key, solver = solver_of(config)
    folder = output(config)
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{me}.ckpt"
    audit = folder / f"{me}.audit.jsonl"
    from consensus.peers import Peers

    with attempt(config, ("peers",), Peers, config.path, me, audit=audit) as engine:
        table = {me: chosen.pop("name")}
        owned = attempt(config, ("data",), consensus.data.own, table, engine=engine, seed=seed, **chosen)
        pipeline, targets = owned.pipeline, owned.shards.targets.shape[-1]
        problem = trained(config, owned.shards, owned.shards.features.shape[-1], pipeline.classes, targets)
        saved = {} if engine.roster.leaves and not resume else {"checkpoint": place, "resume": place if resume else None}
        options |= {"engine": engine, "test": owned.test} | saved
        result = attempt(config, key, consensus.solve, problem, engine.network, solver, progress=True, **options)
    _write(result, pipeline, folder, me)
    return result


def _write(result: consensus.Result, pipeline: Any, folder: str | os.PathLike[str], me: str) -> None:  # noqa: ANN401
    result.save(Path(folder, f"{me}.npz"))
    result.history.to_csv(Path(folder, f"{me}.csv"))
    result.predictor(pipeline).save(Path(folder, f"{me}.predictor"))
