"""The index of a folder of shards: how many agents and samples there are, and what their columns are."""

from __future__ import annotations

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np

from consensus import _checks
from consensus.tables.frames import Classes, Columns
from topologies import _names

PLAIN, WEIGHTED = 1, 2  # formats, without and with weights of samples


def whole_index(folder: Path) -> dict[str, Any]:
    """Return the index of a folder, joined from those of owners who each saved their own agents."""
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
        if ("labels" in part) != ("labels" in parts[0]):
            raise ValueError(f"{folder} has names of agents of some owners, and of others none: all or none give them")
        for name in ("columns", "classes", "sparse"):
            if part.get(name) != parts[0].get(name):
                raise ValueError(
                    f"{name} of all owners in {folder} must be the same; in {part['path'].name} they are "
                    f"{_checks.shown(part.get(name))}, in {parts[0]['path'].name} {_checks.shown(parts[0].get(name))}"
                )
    _check_whole(folder, parts, ends[-1])
    samples, most = sum(part["samples"] for part in parts), max(part["most"] for part in parts)
    whole = parts[0] | {"agents": ends[-1], "samples": samples, "most": most}
    if "labels" in whole:
        whole["labels"] = [label for part in parts for label in part["labels"]]
    formats = {part["format"] for part in parts}
    if formats == {PLAIN, WEIGHTED}:
        raise ValueError(f"{folder} has samples with weights of some owners, and without of others: all or none give weights")
    return whole | ({"total_weight": sum(part["total_weight"] for part in parts)} if formats == {WEIGHTED} else {})


def _check_whole(folder: Path, parts: list[dict[str, Any]], agents: int) -> None:
    """Raise ``ValueError`` if the parts have ``agents`` in all, and an owner said that there are more, or left files."""
    said = {part["network"]: part["path"].name for part in parts if "network" in part}
    if len(said) > 1:
        shown = ", ".join(f"{number} in {name}" for number, name in sorted(said.items()))
        raise ValueError(f"owners in {folder} must say the same number of all agents; got {shown}")
    for number, name in said.items():
        if number != agents:
            raise ValueError(
                f"{folder} has the indexes of {agents} agents, and {name} says that all owners have {number}: "
                f"index-{agents}.json is missing"
                if number > agents
                else f"{folder} has {agents} agents, and {name} says that all owners have {number}"
            )
    numbers = [path.stem.partition("-")[2] for path in folder.glob("agent-*.npz")]
    without = sorted(int(number) for number in numbers if number.isdecimal() and int(number) >= agents)
    if without:
        raise ValueError(
            f"{folder} has agent-{without[0]}.npz, and no index of its owner, who wrote an index-<number>.json: copy it, too"
        )


def _index(path: Path) -> dict[str, Any]:
    """Return the index in a file, and the ``path``."""
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # text in another encoding, too
        raise ValueError(f"{path} is not the JSON that save_shards writes: {error}") from error
    if not isinstance(index, dict) or index.get("format") not in (PLAIN, WEIGHTED):
        got = index.get("format") if isinstance(index, dict) else index
        raise ValueError(
            f"{path.parent} has shards of format {_checks.shown(got)}; this version reads format {PLAIN} and {WEIGHTED}"
        )
    for name in ("agents", "samples", "most"):
        _checks.count(f"{name} in {path}", index.get(name))
    if path.name != "index.json":
        _checks.count(f"first in {path}", index.get("first"), least=0)
        if "network" in index:
            _checks.count(f"network in {path}", index["network"])
    if index.get("sparse") is not None:
        _checks.count(f"sparse in {path}", index["sparse"])
    if index["format"] == WEIGHTED:
        _checks.number(f"total_weight in {path}", index.get("total_weight"), above=0)
    return index | {"path": path}


def columns_in(index: dict[str, Any]) -> Columns | None:
    """Return the columns of a data frame in the index, if any."""
    if (found := index.get("columns")) is None:
        return None
    try:
        return Columns.from_dict(found)
    except ValueError as error:
        raise ValueError(f"columns in {index['path']} must be names and categories; got {_checks.shown(found)}") from error


def classes_in(index: dict[str, Any]) -> Classes | None:
    """Return the targets' classes in the index, if any."""
    found = index.get("classes")
    if found is not None and not (isinstance(found, list) and all(isinstance(name, str | int | float) for name in found)):
        raise ValueError(f"classes in {index['path']} must be a list of names; got {_checks.shown(found)}")
    return None if found is None else tuple(found)


def labels_in(index: dict[str, Any]) -> tuple[Hashable, ...] | None:
    """Return the names of the agents in the index, if any."""
    found = index.get("labels")
    if found is not None and not (isinstance(found, list) and all(isinstance(name, str | int | float) for name in found)):
        raise ValueError(f"labels in {index['path']} must be a list of names; got {_checks.shown(found)}")
    return None if found is None else _names.checked(f"labels in {index['path']}", found, index["agents"])
