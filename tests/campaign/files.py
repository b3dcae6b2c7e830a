"""The formats that the package reads: how a good file is written into a folder, and read back and compared."""

import functools
import gzip
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

import consensus
import topologies
from tests.campaign import good


class Format(NamedTuple):
    """A kind of file: its name in a folder, who writes it there, who reads it; ``sealed``: damage can never go unnoticed."""

    name: str
    write: callable
    read: callable
    sealed: bool


def read(name, folder, altered=False, sealed=True):
    """What the package makes of the file in a folder; an AssertionError if it takes a damaged file for another good one.

    ``altered``: it holds now what must be refused; ``sealed``: it is as its writer sealed it, or damaged since.
    """
    form = FORMATS[name]
    found = form.read(Path(folder))
    if altered:
        raise AssertionError("accepted")
    if form.sealed and sealed:
        for mine, theirs in zip(found, _sound(name), strict=True):
            if mine.dtype != theirs.dtype or mine.shape != theirs.shape or mine.tobytes() != theirs.tobytes():
                raise AssertionError("read as something else, unnoticed")
    return found


@functools.cache
def _sound(name):
    folder = Path(tempfile.mkdtemp())
    try:
        FORMATS[name].write(folder)
        return FORMATS[name].read(folder)
    finally:
        shutil.rmtree(folder)


def _columns(history):
    return [history[name] for name in history if name != "seconds"]


def _write_checkpoint(folder):
    shutil.copyfile(_checkpoint(), folder / "run.ckpt")


@functools.cache
def _checkpoint():
    return good.checkpoint_file(Path(tempfile.mkdtemp()) / "run.ckpt")


def _read_checkpoint(folder):
    result = consensus.solve(good.problem(), good.schedule(), good.solver(), rounds=4, resume=folder / "run.ckpt")
    return [result.w, *_columns(result.history)]


def _read_result(folder):
    result = consensus.load(folder / "run.npz")
    return [result.w, np.array([result.rounds, result.reason]), *_columns(result.history)]


def _write_shards(folder):
    good.shard_folder(folder)


def _read_shards(folder):
    shards = consensus.data.load_shards(folder)
    return [shards.features, shards.targets, shards.weights, shards.indices, np.array([shards.samples, shards.network_size])]


def _write_npz(folder):
    np.savez(folder / "data.npz", X=good.X(), y=good.y())


def _write_parquet(folder):
    import pandas as pd

    pd.DataFrame(np.column_stack([good.X(), good.y()]), columns=list("abct")).to_parquet(folder / "data.parquet")


def _write_classes(folder):
    lines = ["weight;legs;animal", *(f"{k}.5;{k % 5};{'cat' if k % 2 else 'dog'}" for k in range(12))]
    (folder / "data.csv").write_text("\n".join(lines) + "\n")


def _load(file, **options):
    return lambda folder: list(consensus.datasets.load(folder / file, **options))


def _read_history(folder):
    history = consensus.History.from_csv(folder / "history.csv")
    return [history[name] for name in history]


def _contacts(rows=20):
    rng = np.random.default_rng(0)
    lines = [f"{t},{','.join(map(str, rng.permutation(5)[:2]))}" for t in range(rows)]
    return "\n".join(["time,i,j", *lines]) + "\n"


def _read_contacts(file):
    return lambda folder: [np.array(topologies.Temporal.from_csv(folder / file, window=5.0).labels)]


FORMATS = {
    "checkpoint": Format("run.ckpt", _write_checkpoint, _read_checkpoint, True),
    "result": Format("run.npz", lambda folder: good.result().save(folder / "run.npz"), _read_result, True),
    "shard": Format("agent-1.npz", _write_shards, _read_shards, True),
    "shard index": Format("index.json", _write_shards, _read_shards, False),
    "npz data": Format("data.npz", _write_npz, _load("data.npz"), True),
    "CSV data": Format("data.csv", lambda folder: good.dataset_file(folder / "data.csv"), _load("data.csv"), False),
    "CSV classes": Format("data.csv", _write_classes, _load("data.csv", target="animal"), False),
    "Parquet data": Format("data.parquet", _write_parquet, _load("data.parquet"), False),
    "history": Format("history.csv", lambda folder: good.history_file(folder / "history.csv"), _read_history, True),
    "contacts": Format(
        "contacts.csv", lambda folder: (folder / "contacts.csv").write_text(_contacts()), _read_contacts("contacts.csv"), False
    ),
    "contacts, gzip": Format(
        "contacts.csv.gz",
        lambda folder: (folder / "contacts.csv.gz").write_bytes(gzip.compress(_contacts().encode(), mtime=0)),
        _read_contacts("contacts.csv.gz"),
        False,
    ),
}
