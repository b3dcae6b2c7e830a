"""Shards in a folder, with one file per agent."""

from __future__ import annotations

import functools
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._arrays.files import interrupted_later
from consensus._arrays.sparse import SparseRows
from consensus.checkpoints.storage import Claim
from consensus.data.shards import Shards, padded
from consensus.streaming.folder_index import PLAIN, WEIGHTED, classes_in, columns_in, labels_in, whole_index
from consensus.tables.tables import npz
from topologies import _names


def save_shards(shards: Shards, folder: str | os.PathLike[str], first: int | None = None, agents: int | None = None) -> None:
    """Write the samples of every agent to a file of its own, so that the data never have to be gathered on one machine.

    Parameters
    ----------
    shards : Shards
        The shards of all agents, or of a block: several machines may write theirs into the same folder.
    folder : path
        The folder, which gets ``agent-<number>.npz`` for each agent, without padding, and ``index.json``.
    first : int, optional
        The number in the network of the first agent held here, for owners whose shards are not a block of a network, as those
        of :meth:`Shards.from_list`. Every owner then writes ``index-<first>.json`` instead of the index, and
        :func:`load_shards` joins them. Each sample's index is its row in its owner's data.
    agents : int, optional
        With ``first``, the number of agents of all owners, by which :func:`load_shards` sees that one of them is missing.

    Raises
    ------
    FileExistsError
        If the folder has other samples of one of these agents, or the index of another network. No file is replaced.
    ValueError
        If ``first`` is given for a block, whose agents have numbers already, or ``agents`` without ``first`` or too small.

    Warns
    -----
    UserWarning
        If ``first`` comes without ``agents``: a folder without the last owner's files would be a smaller network.

    Examples
    --------
    >>> import tempfile, numpy as np, consensus
    >>> from consensus.data import load_shards, save_shards
    >>> with tempfile.TemporaryDirectory() as folder:  # two hospitals, which need not know each other's data
    ...     save_shards(consensus.Shards.from_list([(np.eye(3), [1.0, 2.0, 3.0])]), folder, first=0, agents=2)
    ...     save_shards(consensus.Shards.from_list([(np.ones((2, 3)), [4.0, 5.0])]), folder, first=1, agents=2)
    ...     load_shards(folder).sizes
    array([3, 2])
    """
    _checks.shards(shards)
    folder = _checks.path("folder", folder)
    about = {"format": PLAIN if shards.total_weight is None else WEIGHTED, "agents": int(shards.network_size)}
    index: dict[str, Any] = about | {"samples": int(shards.samples)}
    index["most"] = int(shards.features.shape[1])
    if shards.total_weight is not None:
        index["total_weight"] = float(shards.total_weight)
    name, rows = "index.json", shards.rows
    if first is not None:
        if shards.agents != shards.network_size:
            held = f"{shards.rows.tolist()} of {shards.network_size}"
            raise ValueError(f"first goes with shards of all their agents; these are {held}")
        name, rows = f"index-{_checks.count('first', first, least=0)}.json", first + np.arange(shards.agents)
        index["first"] = int(first)
        if agents is None:
            _checks.warn(
                "nothing says how many agents all owners have, so that a folder without the last owner's files would be a "
                "smaller network: pass agents= beside first="
            )
        else:
            index["network"] = _checks.count("agents", agents, least=first + shards.agents)
    elif agents is not None:
        raise ValueError(f"agents goes with first, for owners who each save their own; got agents={_checks.shown(agents)}")
    if isinstance(shards.features, SparseRows):
        index["sparse"] = int(shards.features.shape[2])
    if shards.columns is not None:
        index["columns"] = shards.columns.to_dict()
    if shards.classes is not None:
        index["classes"] = shards.classes
    if shards.labels is not None:
        index["labels"] = _names.plain(shards.labels)
    folder.mkdir(parents=True, exist_ok=True)
    for other in folder.glob("index-*.json" if first is None else "index.json"):
        raise FileExistsError(
            f"{other} is of shards that were saved {'with' if first is None else 'without'} first=: take another folder"
        )
    files: dict[Path, Callable[[BinaryIO], object]] = {
        folder / name: lambda file: file.write((json.dumps(index, indent=1) + "\n").encode())
    }
    files |= {folder / f"agent-{agent}.npz": functools.partial(_save, shards, row) for row, agent in enumerate(rows.tolist())}
    for path, save in files.items():
        _reject_other(path, save)
    for path, save in files.items():
        try:
            with interrupted_later(), path.open("xb") as file:  # another machine may be writing, too
                save(file)
        except FileExistsError:
            _reject_other(path, save)


def _save(shards: Shards, row: int, file: BinaryIO) -> None:
    """Write an agent's samples as npz, with their weights if they have any."""
    own = shards.weights[row] > 0
    arrays = {"targets": shards.targets, "indices": shards.indices}
    arrays |= {} if shards.total_weight is None else {"weights": shards.weights}
    if isinstance(shards.features, SparseRows):
        rows = shards.features.of_agent(row)[own]
        features = {"features": rows.data, "columns": rows.indices, "rows": rows.indptr}
    else:
        features = {"features": shards.features[row, own]}
    np.savez(file, **features, **{name: array[row, own] for name, array in arrays.items()})


def _reject_other(path: Path, save: Callable[[BinaryIO], object]) -> None:
    """Raise ``FileExistsError`` if the file is there with other content than ``save`` writes."""
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
    folder: str | os.PathLike[str], agents: slice | ArrayLike | Callable[[int], slice | ArrayLike] | None = None
) -> Shards:
    """Read shards that :func:`save_shards` wrote, of all agents or of some only.

    Parameters
    ----------
    folder : path
        The folder.
    agents : slice, sequence of int, or callable, optional
        The agents; a function returns them for a number of agents, as ``MPI().rows`` does for a rank.

    Returns
    -------
    Shards
        The shards, padded as in the whole network, so that a block computes the same bits.

    Raises
    ------
    FileNotFoundError
        If the folder has no index, or not the file of an agent asked for.
    ValueError
        If the index is of another format, an agent is not in it, a file is damaged, or owners' parts do not make one network;
        the message names the file.
    TypeError
        If ``agents`` are not numbers of agents.

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
    folder = _checks.path("folder", folder)
    index = whole_index(folder)
    everyone = np.arange(index["agents"])
    rows = agents(index["agents"]) if callable(agents) else slice(None) if agents is None else agents
    rows = everyone[_checks.rows(rows, index["agents"], "agents")]
    if not len(rows):
        raise ValueError(f"agents must name at least one of the {index['agents']} agents of {folder}; got {agents!r}")
    names = ("features", "targets", "indices", *(("weights",) if "total_weight" in index else ()))
    parts = [_agent(folder / f"agent-{agent}.npz", names, index["most"], index.get("sparse")) for agent in rows]
    first = parts[0]
    for agent, part in zip(rows, parts, strict=True):
        for name in ("features", "targets"):
            if part[name].shape[1:] != first[name].shape[1:] or part[name].dtype != first[name].dtype:
                raise ValueError(
                    f"{name} of agent {agent} in {folder} must be like those of agent {rows[0]}, {first[name].dtype} of shape "
                    f"{first[name].shape[1:]} a sample; got {part[name].dtype} of {part[name].shape[1:]}"
                )
    own = (tuple(part[name] for name in names) for part in parts)
    arrays = padded(own, [len(part["indices"]) for part in parts], first["features"], first["targets"], index["most"])
    about = {"samples": index["samples"], "columns": columns_in(index), "classes": classes_in(index)}
    about["labels"] = labels_in(index)
    about |= {"total_weight": index["total_weight"]} if "total_weight" in index else {}
    return Shards(**arrays | about, rows=rows, network_size=index["agents"])


def _agent(path: Path, names: tuple[str, ...], most: int, sparse: int | None) -> dict[str, Any]:
    """Return the arrays ``names`` of one agent's file, none longer than ``most``; ``sparse`` features as a CSR array."""
    stored = () if sparse is None else ("columns", "rows")

    def check(own: dict[str, Claim]) -> None:
        x, d, indices = own["features"], own["targets"], own["indices"]
        if sparse is not None and (x.ndim != 1 or own["rows"].shape != (d.shape[0] + 1,) or own["columns"].shape != x.shape):
            raise ValueError(f"{path} must hold sparse features, as the index says: numbers, their columns and rows")
        x = x if sparse is None else Claim(x.dtype, (d.shape[0], sparse))
        good = indices.dtype.kind in "iu" and indices.ndim == 1 and indices.shape[0] <= most
        good = good and x.dtype.kind in "fi" and x.ndim >= 2 and d.dtype.kind == "f" and d.ndim == 2
        if "weights" in own:
            good = good and own["weights"].dtype == d.dtype and own["weights"].shape == indices.shape
        if not good or not x.shape[:1] == d.shape[:1] == indices.shape:
            found = ", ".join(f"{name} {array.dtype} {array.shape}" for name, array in own.items())
            wanted = f"at most {most} samples, features (samples, ...) and targets (samples, columns)"
            raise ValueError(f"{path} must hold {wanted}; it has {found}")

    own: dict[str, Any] = npz(path, *names, *stored, check=check)
    for name in ("features", "targets"):
        if not np.isfinite(own[name]).all():
            raise ValueError(f"{path} must hold finite {name}; some are NaN or infinite")
    if sparse is not None:
        own["features"] = _csr(path, own["features"], own.pop("columns"), own.pop("rows"), sparse)
    if "weights" in own and not ((own["weights"] > 0) & np.isfinite(own["weights"])).all():
        raise ValueError(f"{path} must hold finite weights above 0; some are not")
    return own


def _csr(path: Path, data: np.ndarray, columns: np.ndarray, rows: np.ndarray, features: int) -> sp.csr_array:
    """Return sparse features; raise ``ValueError`` that names the file if their places are none."""
    found = columns.dtype.kind in "iu" and rows.dtype.kind in "iu" and rows[0] == 0 and rows[-1] == len(data)
    found = found and (np.diff(rows) >= 0).all() and (columns >= 0).all() and (columns < features).all()
    matrix = sp.csr_array((data, columns, rows), shape=(len(rows) - 1, features)) if found else None
    if matrix is None or not matrix.has_canonical_format:
        raise ValueError(f"{path} must hold sparse features whose columns rise in each row, below {features}; they do not")
    return matrix
