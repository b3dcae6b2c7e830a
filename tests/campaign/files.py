"""The formats that the package reads: how a good file is written into a folder, and read back and compared."""

import functools
import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import consensus
import topologies
from tests.campaign import good


class Format(NamedTuple):
    """A kind of file: its name, functions of a path that write and read it, and whether a checksum shows any damage."""

    name: str
    write: Callable
    read: Callable
    checked: bool = False


def write(name, folder="."):
    """The path of a good file in a folder."""
    path = Path(folder, FORMATS[name].name)
    FORMATS[name].write(path)
    return path


def read(name, folder, altered=False, sealed=True):
    """What the package reads from the file in a folder; an AssertionError if it takes a damaged file for another good one.

    ``altered``: its contents are wrong now; ``sealed``: its checksum is that of its writer.
    """
    form = FORMATS[name]
    found = form.read(Path(folder, form.name))
    if altered:
        raise AssertionError("accepted")
    if form.checked and sealed:
        for ours, theirs in zip(found, _sound(name), strict=True):
            if (ours.dtype, ours.shape, ours.tobytes()) != (theirs.dtype, theirs.shape, theirs.tobytes()):
                raise AssertionError("read as something else, unnoticed")
    return found


@functools.cache
def _sound(name):
    with tempfile.TemporaryDirectory() as folder:
        return FORMATS[name].read(write(name, folder))


def _columns(history):
    return [history[name] for name in history if name != "seconds"]


@functools.cache
def _checkpoint():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.ckpt")
        consensus.solve(good.problem(), good.schedule(), good.solver(), rounds=2, checkpoint=path)
        return path.read_bytes()


def _resume(path):
    result = consensus.solve(good.problem(), good.schedule(), good.solver(), rounds=4, resume=path)
    return [result.w, *_columns(result.history)]


def _load_result(path):
    result = consensus.load(path)
    return [result.w, np.array([result.rounds, result.reason]), *_columns(result.history)]


def _load_predictor(path):
    predictor = consensus.load(path)
    pipeline = predictor.pipeline
    numbers = [predictor.w, pipeline.mean, pipeline.scale, np.array([pipeline.shift, pipeline.spread])]
    return [*numbers, np.array([*predictor.columns.names, *predictor.classes, pipeline.target, repr(predictor.model)])]


def _write_shards(path):
    consensus.data.save_shards(good.shards(), path.parent)


def _load_shards(path):
    shards = consensus.data.load_shards(path.parent)
    return [shards.features, shards.targets, shards.weights, shards.indices, np.array([shards.samples, shards.network_size])]


def _load_data(path, **options):
    return list(consensus.datasets.load(path, **options))


def _load_history(path):
    return _columns(consensus.History.from_csv(path))


def _load_contacts(path):
    return [np.array(topologies.Temporal.from_csv(path, window=5.0).labels)]


def _load_edges(path):
    return [np.array(sorted(topologies.read_graph(path).edges(data="km")))]


_rng = np.random.default_rng(0)
CLASSES = "weight;legs;animal\n" + "".join(f"{k}.5;{k % 5};{'cat' if k % 2 else 'dog'}\n" for k in range(12))
CONTACTS = "time,i,j\n" + "".join(f"{t},{','.join(map(str, _rng.permutation(5)[:2]))}\n" for t in range(20))
EDGES = "from,to,km\n0,1,2.5\n1,2,1\n2,3,4\n3,0,1\n0,2,3\n"
TABLE = pd.DataFrame(np.column_stack([good.X(), good.y()]), columns=["a", "b", "c", "target"])
PACKED = gzip.compress(CONTACTS.encode(), mtime=0)
FORMATS = {
    "checkpoint": Format("run.ckpt", lambda path: path.write_bytes(_checkpoint()), _resume, True),
    "result": Format("run.npz", lambda path: good.result().save(path), _load_result, True),
    "predictor": Format("run.predictor", lambda path: good.predictor().save(path), _load_predictor, True),
    "shard": Format("agent-1.npz", _write_shards, _load_shards, True),
    "shard index": Format("index.json", _write_shards, _load_shards),
    "npz data": Format("data.npz", lambda path: np.savez(path, X=good.X(), y=good.y()), _load_data, True),
    "CSV data": Format("data.csv", lambda path: TABLE.to_csv(path, index=False), _load_data),
    "CSV classes": Format("data.csv", lambda path: path.write_text(CLASSES), lambda path: _load_data(path, target="animal")),
    "Parquet data": Format("data.parquet", TABLE.to_parquet, _load_data),
    "history": Format("history.csv", lambda path: good.history().to_csv(path), _load_history, True),
    "contacts": Format("contacts.csv", lambda path: path.write_text(CONTACTS), _load_contacts),
    "edges": Format("edges.csv", lambda path: path.write_text(EDGES), _load_edges),
    "contacts, gzip": Format("contacts.csv.gz", lambda path: path.write_bytes(PACKED), _load_contacts),
}
