"""Shards in a folder, a file an agent."""

from __future__ import annotations

import functools
import io
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.data.frames import Columns
from consensus.data.shards import Shards, padded
from consensus.data.tables import npz

_FORMAT = 1


def save_shards(shards: Shards, folder: str | os.PathLike, first: int | None = None) -> None:
    """Write the samples of every agent to a file of its own, so that the data never have to be gathered on one machine.

    Parameters
    ----------
    shards : Shards
        All agents', or a block's: several machines may write theirs into the same folder.
    folder : path
        Gets ``agent-<number>.npz`` for each agent, without padding, and ``index.json``.
    first : int, optional
        For owners whose shards know nothing of the others', as those of :meth:`Shards.from_list`: the number in the network of
        the first agent held here. Instead of the index every owner writes ``index-<first>.json``; :func:`load_shards` puts
        them together. Each sample's index is then its row in its owner's data.

    Raises
    ------
    FileExistsError
        If the folder has other samples of one of these agents, or the index of another network. Nothing is replaced; what is
        there already is not written again.
    ValueError
        If ``first`` is given for a block, whose agents have numbers already.

    Examples
    --------
    >>> import tempfile, numpy as np, consensus
    >>> from consensus.data import load_shards, save_shards
    >>> with tempfile.TemporaryDirectory() as folder:  # two hospitals, which need not know each other's data
    ...     save_shards(consensus.Shards.from_list([(np.eye(3), [1.0, 2.0, 3.0])]), folder, first=0)
    ...     save_shards(consensus.Shards.from_list([(np.ones((2, 3)), [4.0, 5.0])]), folder, first=1)
    ...     load_shards(folder).sizes
    array([3, 2])
    """
    _checks.shards(shards)
    folder = Path(_checks.path("folder", folder))
    index: dict[str, Any] = {
        "format": _FORMAT,
        "agents": int(shards.network_size),
        "samples": int(shards.samples),
        "most": int(shards.features.shape[1]),
    }
    name, rows = "index.json", shards.rows
    if first is not None:
        if shards.agents != shards.network_size:
            raise ValueError(
                f"first goes with shards of all their agents; these are {shards.rows.tolist()} of {shards.network_size}"
            )
        name, rows = f"index-{_checks.count('first', first, least=0)}.json", first + np.arange(shards.agents)
        index["first"] = int(first)
    if shards.columns is not None:
        index["columns"] = asdict(shards.columns)
    if shards.classes is not None:
        index["classes"] = shards.classes
    folder.mkdir(parents=True, exist_ok=True)
    for other in folder.glob("index-*.json" if first is None else "index.json"):
        raise FileExistsError(
            f"{other} is of shards that were saved {'with' if first is None else 'without'} first=: take another folder"
        )
    files = {folder / name: lambda file: file.write((json.dumps(index, indent=1) + "\n").encode())}
    files |= {folder / f"agent-{agent}.npz": functools.partial(_save, shards, row) for row, agent in enumerate(rows.tolist())}
    for path, save in files.items():
        _refuse_another(path, save)
    for path, save in files.items():
        try:
            with path.open("xb") as file:  # another machine may be writing, too
                save(file)
        except FileExistsError:
            _refuse_another(path, save)


def _save(shards, row, file):
    """Write an agent's samples as npz."""
    own = shards.weights[row] > 0
    np.savez(file, features=shards.features[row, own], targets=shards.targets[row, own], indices=shards.indices[row, own])


def _refuse_another(path, save):
    """Raise ``FileExistsError`` if the file is there with another content than ``save`` writes."""
    if not path.exists():
        return
    content = io.BytesIO()
    save(content)
    if path.read_bytes() != content.getvalue():
        raise FileExistsError(
            f"{path} is there already, of other shards, and is not replaced. Owners who each save their own agents give "
            "first=, the number of their first agent; shards that are to replace others need an empty folder"
        )


def load_shards(
    folder: str | os.PathLike, agents: slice | ArrayLike | Callable[[int], slice | ArrayLike] | None = None
) -> Shards:
    """Read shards that :func:`save_shards` wrote, of all agents or of some only.

    Parameters
    ----------
    folder : path
    agents : slice, sequence of int, or callable, optional
        Which agents; a function takes the number of agents and says which, as ``MPI().rows`` does for a rank.

    Returns
    -------
    Shards
        Padded as in the whole network, so that a block computes the same bits.

    Raises
    ------
    FileNotFoundError
        If the folder has no index, or not the file of an agent asked for.
    ValueError
        If the index is of another format, an agent is not in it, a file is damaged, or owners' parts do not make one network:
        the message names the file.
    TypeError
        If ``agents`` are no agents' numbers.

    Examples
    --------
    >>> import tempfile, numpy as np, consensus
    >>> from consensus.data import load_shards, save_shards
    >>> shards = consensus.partition(np.eye(5), np.arange(5.0), agents=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_shards(shards, folder)
    ...     load_shards(folder, agents=[1]).sizes
    array([2])
    """
    folder = Path(_checks.path("folder", folder))
    index = _whole_index(folder)
    everyone = np.arange(index["agents"])
    rows = agents(index["agents"]) if callable(agents) else slice(None) if agents is None else agents
    rows = everyone[_checks.rows(rows, index["agents"], "agents")]
    if not len(rows):
        raise ValueError(f"agents must name at least one of the {index['agents']} agents of {folder}; got {agents!r}")
    parts = [_agent(folder / f"agent-{agent}.npz", index["most"]) for agent in rows]
    first = parts[0]
    for agent, part in zip(rows, parts, strict=True):
        for name in ("features", "targets"):
            if part[name].shape[1:] != first[name].shape[1:] or part[name].dtype != first[name].dtype:
                raise ValueError(
                    f"{name} of agent {agent} in {folder} must be like those of agent {rows[0]}, {first[name].dtype} of shape "
                    f"{first[name].shape[1:]} a sample; got {part[name].dtype} of {part[name].shape[1:]}"
                )
    arrays = padded([(own["features"], own["targets"], own["indices"]) for own in parts], index["most"])
    about = {"samples": index["samples"], "columns": _columns(index), "classes": _classes(index)}
    return Shards(**arrays | about, rows=rows, network_size=index["agents"])


def _whole_index(folder):
    """What the index of a folder says, or those of owners who each saved their own agents."""
    parts = [_index(path) for path in folder.glob("index-*.json")]
    if not parts:
        return _index(folder / "index.json")
    if (folder / "index.json").exists():
        raise ValueError(
            f"{folder} has an index.json of one network, and {parts[0]['path'].name} of owners who saved their own agents"
        )
    parts.sort(key=lambda part: part["first"])
    ends = np.cumsum([0, *(part["agents"] for part in parts)]).tolist()
    for part, end in zip(parts, ends, strict=False):
        if part["first"] != end:
            raise ValueError(
                f"{folder} must have the agents 0, 1, 2, ... once each; after {end} of them comes {part['path'].name}, whose "
                f"first is {part['first']}"
            )
        for name in ("columns", "classes"):
            if part.get(name) != parts[0].get(name):
                raise ValueError(
                    f"{name} of all owners in {folder} must be the same; in {part['path'].name} they are "
                    f"{_checks.shown(part.get(name))}, in {parts[0]['path'].name} {_checks.shown(parts[0].get(name))}"
                )
    samples, most = sum(part["samples"] for part in parts), max(part["most"] for part in parts)
    return parts[0] | {"agents": ends[-1], "samples": samples, "most": most}


def _index(path):
    """What an index of a folder of shards says, and its path."""
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # of which text in another encoding is one
        raise ValueError(f"{path} is not the JSON that save_shards writes: {error}") from error
    if not isinstance(index, dict) or index.get("format") != _FORMAT:
        got = index.get("format") if isinstance(index, dict) else index
        raise ValueError(f"{path.parent} has shards of format {_checks.shown(got)}; this version reads format {_FORMAT}")
    for name in ("agents", "samples", "most"):
        _checks.count(f"{name} in {path}", index.get(name))
    if path.name != "index.json":
        _checks.count(f"first in {path}", index.get("first"), least=0)
    return index | {"path": path}


def _columns(index):
    """What the index says of a data frame's columns, if anything."""
    if (found := index.get("columns")) is None:
        return None
    names, categories = (found.get(name) if isinstance(found, dict) else None for name in ("names", "categories"))
    words = [names, *categories.values()] if isinstance(categories, dict) and isinstance(names, list) else [None]
    if not all(isinstance(part, list) and all(isinstance(word, str) for word in part) for part in words):
        raise ValueError(f"columns in {index['path']} must be names and categories; got {_checks.shown(found)}")
    return Columns(tuple(names), {name: tuple(words) for name, words in categories.items()})


def _classes(index):
    """What the index says of the targets' classes, if anything."""
    found = index.get("classes")
    if found is not None and not (isinstance(found, list) and all(isinstance(name, str | int | float) for name in found)):
        raise ValueError(f"classes in {index['path']} must be a list of names; got {_checks.shown(found)}")
    return None if found is None else tuple(found)


def _agent(path, most):
    """The arrays of one agent's file, none longer than ``most``."""

    def check(own):
        size = own["indices"].shape[:1]
        good = own["indices"].dtype.kind in "iu" and own["indices"].ndim == 1 and size[0] <= most
        for name in ("features", "targets"):
            axes = own[name].ndim >= 2 if name == "features" else own[name].ndim == 2
            good = (
                good and own[name].dtype.kind in ("fi" if name == "features" else "f") and axes and own[name].shape[:1] == size
            )
        if not good:
            found = ", ".join(f"{name} {array.dtype} {array.shape}" for name, array in own.items())
            wanted = f"at most {most} samples, features (samples, ...) and targets (samples, columns)"
            raise ValueError(f"{path} must hold {wanted}; it has {found}")

    own = npz(path, "features", "targets", "indices", check=check)
    for name in ("features", "targets"):
        if not np.isfinite(own[name]).all():
            raise ValueError(f"{path} must hold finite {name}; some are NaN or infinite")
    return own
