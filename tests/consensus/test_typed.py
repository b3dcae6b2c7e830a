"""Values between ranks: what is sent arrives, of its type, and a stranger's bytes run nothing."""

import json
import math
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

import consensus
from consensus._arrays import typed as _typed
from consensus.checkpoints.best import Best
from consensus.checkpoints.checkpoint import Checkpoint
from consensus.checkpoints.parts import Part
from consensus.cli import ConfigError
from consensus.engines import ranks
from consensus.engines.ranks import Ranks
from tests.helpers.broken_files import Evil

PLAIN = [
    None,
    True,
    0,
    -(10**30),
    0.1,
    -0.0,
    math.inf,
    "",
    "\u00e9\ud800\n</script>",
    b"\x00\xff",
    [],
    (),
    {},
    (1, [2, (3.5, None)], {"a": (), 4: b"", (1, 2): [True]}),
    {"dict": [["a", 1]], "array": 0, "tuple": ()},  # names of types are no types
]
ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
    np.arange(5)[::-2],
    np.zeros((0, 3)),
    np.array(2.5, ">f4"),
    np.array(["a", "\u00e9tage"]),
    np.array(["2026-01-01", "NaT"], "M8[D]"),
    np.array([True, False]),
    np.float64(0.1),
    np.int32(7),
    np.bool_(True),
    np.str_("x"),
]


def there_and_back(value, records=ranks._RECORDS):
    return _typed.unpack(_typed.pack(value, records), records)


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_arrive_with_their_types(value):
    found = there_and_back(value)
    assert repr(found) == repr(value)
    assert type(found) is type(value)


@pytest.mark.parametrize("value", ARRAYS, ids=repr)
def test_arrays_and_scalars_arrive_with_their_dtypes(value):
    found, _ = there_and_back((value, 1))
    assert type(found) is type(value)
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found, value)
    if isinstance(found, np.ndarray):
        found[...] = value  # it can be written to


def test_histories_and_checkpoints_arrive():
    history = consensus.History(("ann", "bob"))
    history.append({"round": 0, "agent_objective": np.array([1.0, 2.0]), "objective": np.float32(0.1)})
    best = Best("objective", 0.5, 3, np.arange(2.0), None)
    sent = Checkpoint(
        {"round": 3, "w": np.eye(2)}, history, {"messages": 4}, 0.25, {"solver": None}, best, (Part("a", 0, 2, "h"),)
    )
    found = there_and_back(sent)
    assert type(found) is Checkpoint
    assert found.parts == sent.parts
    assert type(found.parts[0]) is Part
    assert type(found.best) is Best
    assert found.history.labels == history.labels
    assert found.history["objective"].dtype == np.float32
    for name in history:
        np.testing.assert_array_equal(found.history[name], history[name])


def errors():
    with pytest.raises(FileNotFoundError) as caught:
        open("/no/such/file")  # noqa: SIM115
    noted = ValueError("x", 3)
    noted.add_note("in metrics")
    decoding = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    return [caught.value, noted, decoding, KeyError("k"), ConfigError("run.toml, line 3: no"), consensus.WorkerError("late")]


@pytest.mark.parametrize("error", errors(), ids=repr)
def test_errors_arrive_with_class_text_and_notes(error):
    found = there_and_back(error)
    assert (type(found), str(found)) == (type(error), str(error))
    assert getattr(found, "__notes__", None) == getattr(error, "__notes__", None)
    if isinstance(error, OSError):
        assert (found.errno, found.filename) == (error.errno, error.filename)


def test_a_users_error_arrives_as_the_class_of_python_that_it_is_derived_from():
    class Mine(LookupError):
        pass

    found = there_and_back(Mine("lost"))
    assert (type(found), str(found)) == (LookupError, "Mine: lost")
    assert str(there_and_back(ValueError(object))) == str(ValueError(object))  # whose argument is not sent


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([None]), [print], Path("x"), np.zeros(2, "i4,f8"), 1j])
def test_what_has_no_form_is_refused_by_its_sender(value):
    with pytest.raises(TypeError, match=r"processes send each other None, numbers, text, .* of these; not "):
        _typed.pack(value)


def forged(tree, arrays=b""):
    text = json.dumps(tree).encode()
    return struct.pack("<Q", len(text)) + text + arrays


FORGED = {
    "nothing": b"",
    "length": struct.pack("<Q", 2**63) + b"{}",
    "text": struct.pack("<Q", 3) + b"{]}",
    "deep": forged(0)[:0] + struct.pack("<Q", 200_000) + b"[" * 200_000,
    "unknown": forged({"os.system": ["id"]}),
    "two": forged({"tuple": [], "dict": []}),
    "class": forged({"error": ["os", "system", {"tuple": ["id"]}, []]}),
    "function": forged({"error": ["builtins", "eval", {"tuple": ["1"]}, []]}),
    "exit": forged({"error": ["builtins", "SystemExit", {"tuple": []}, []]}),
    "module": forged({"error": ["consensus.engines.mpi", "MPI", {"tuple": []}, []]}),
    "objects": forged({"array": ["O", [1], 0]}, bytes(8)),
    "hidden objects": forged({"array": ["i4,O", [1], 0]}, bytes(12)),
    "addresses": forged({"array": ["O", [1], 0]}, b"\x01" * 8),
    "empty bomb": forged({"array": ["<f8", [0, 2**62, 2**62], 0]}, bytes(8)),
    "no list": forged({"array": ["<f8", 3, 0]}, bytes(24)),
    "bomb": forged({"array": ["<f8", [10**12], 0]}, bytes(8)),
    "overflow": forged({"array": ["<f8", [2**32, 2**32], 0]}, bytes(8)),
    "before": forged({"array": ["<f8", [1], -8]}, bytes(8)),
    "behind": forged({"array": ["<f8", [1], 8]}, bytes(8)),
    "negative": forged({"array": ["<f8", [-1], 0]}, bytes(8)),
    "dtype": forged({"array": ["no", [1], 0]}, bytes(8)),
    "record": forged({"Part": ["a"]}),
    "history": forged({"History": [[1], None]}),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_message_is_an_error_and_takes_no_memory(name):
    with pytest.raises(ValueError, match=r"a message of .* bytes is none of this package"):
        _typed.unpack(FORGED[name], ranks._RECORDS)


class Stranger:
    """Stands for rank 0, which sends ``content`` whatever is asked of it."""

    engine, absent, me, size = "Torch", "", 1, 2

    def __init__(self, content):
        self.content = np.frombuffer(content, np.uint8)

    def broadcast(self, rows):
        rows[...] = self.content.size if rows.dtype == np.int64 else self.content

    def exchange(self, kind, receives, sends):
        for _, rows in receives:
            self.broadcast(rows)

    def done(self, pending, polls):
        return True


@pytest.mark.parametrize("ask", [lambda ranks: ranks.broadcast(None), lambda ranks: ranks.allgather(0)])
def test_a_stranger_who_plays_a_rank_runs_nothing(tmp_path, ask):
    for content in (pickle.dumps(Evil(tmp_path / "run")), FORGED["class"]):
        with pytest.raises(consensus.WorkerError, match="rank 0 sent what this version of the package does not"):
            ask(Ranks(Stranger(content), 60.0))
    assert not (tmp_path / "run").exists()
