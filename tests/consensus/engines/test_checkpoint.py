"""Checkpoints: a resumed run is the run that was never stopped, to the bit, whatever engines it went through."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import engine_cases
import networkx as nx
import numpy as np
import pytest
from engine_harness import HERE, assert_same, mpiexec, read
from problems import data

import consensus
import topologies
from consensus.checkpoint import FORMAT, Checkpoint, check_fits, load
from consensus.engines import Processes, Stacked
from consensus.solvers import DGD, NEXT, GradientTracking, Solver
from consensus.surrogates import FullLinearization, PartialLinearization

SAVED, UNTIL = engine_cases.saved(), engine_cases.UNTIL
HERE_ENGINES = {"stacked": Stacked(), "processes": Processes(3)}


@pytest.fixture(scope="module")
def references():
    return {name: case.run() for name, case in SAVED.items()}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The folder of what runs in one process save; that of other engines has the same contents, and is resumed alike."""
    folder = tmp_path_factory.mktemp("stacked")
    for name, case in SAVED.items():
        case.run(rounds=UNTIL, checkpoint=folder / name)
    return folder


@pytest.mark.slow
def test_resumed_is_uninterrupted(checkpoints, references):
    for name, case in SAVED.items():
        assert_same(case.run(resume=checkpoints / name), references[name], name)


@pytest.mark.slow
def test_workers_save_and_resume_the_same(checkpoints, references, forked, tmp_path):
    for name, case in SAVED.items():
        case.run(engine=Processes(3), rounds=UNTIL, checkpoint=tmp_path / name)
        assert without_times(tmp_path / name) == without_times(checkpoints / name), name
        assert_same(case.run(engine=Processes(3), resume=tmp_path / name), references[name], name)


@pytest.mark.slow
def test_ranks_save_and_resume_the_same(checkpoints, references, tmp_path):
    shutil.copytree(checkpoints, tmp_path / "stacked")
    done = mpiexec(3, HERE / "engine_ranks.py", "resume", tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"differ": []}
    for name in SAVED:
        assert without_times(tmp_path / "mpi" / name) == without_times(checkpoints / name), name
        assert_same(read(tmp_path / "resumed" / f"{name}.npz"), references[name], name)


@pytest.mark.parametrize("engine", HERE_ENGINES)
@pytest.mark.parametrize("at", [1, 4, 9])
def test_ctrl_c_says_how_to_go_on(engine, at, forked, tmp_path):
    case = SAVED["functions, tracking"]._replace(solver=engine_cases.CtrlC(0.02, at=at))
    reference = case._replace(solver=engine_cases.CtrlC(0.02)).run()
    path = tmp_path / "run.ckpt"
    with pytest.raises(consensus.Interrupted) as caught:
        case.run(engine=HERE_ENGINES[engine], checkpoint=path)
    assert f"resume={str(path)!r}" in str(caught.value)
    result = caught.value.result
    assert f"after round {result.rounds};" in str(caught.value)
    assert at - 3 < result.rounds <= at  # of the last round that was recorded or saved at least
    exact = case._replace(solver=engine_cases.CtrlC(0.02)).run(rounds=result.rounds)
    np.testing.assert_array_equal(result.w, exact.w)
    resumed = case._replace(solver=engine_cases.CtrlC(0.02)).run(engine=HERE_ENGINES[engine], resume=path)
    assert_same(resumed, reference)


def test_ctrl_c_without_a_checkpoint():
    case = SAVED["functions, tracking"]._replace(solver=engine_cases.CtrlC(0.02, at=4))
    with pytest.raises(consensus.Interrupted, match=r"after round 4;.*start=error\.result\.w"):
        case.run()


def test_stop_after_stop(references, tmp_path):
    case, path = SAVED["NEXT partial logistic L1"], tmp_path / "run.ckpt"
    case.run(rounds=1, checkpoint=path)
    for rounds in (2, 5, 6, 9, 13):
        result = case.run(rounds=rounds, checkpoint=path, resume=path)
    assert_same(result, references["NEXT partial logistic L1"])
    assert os.listdir(tmp_path) == ["run.ckpt"]


def test_more_rounds_than_planned(references, tmp_path):
    case, path = SAVED["DGD"], tmp_path / "run.ckpt"
    finished = case.run(checkpoint=path)
    assert_same(finished, references["DGD"])
    assert finished.history["round"].tolist() == [0, 3, 6, 9, 12, 13]
    longer = case.run(rounds=20, resume=path)
    assert_same(longer, case.run(rounds=20))
    assert longer.history["round"].tolist() == [0, 3, 6, 9, 12, 15, 18, 20]


@pytest.mark.parametrize("engine", HERE_ENGINES)
def test_a_finished_run_resumed_is_itself(engine, references, forked, tmp_path):
    SAVED["DGD"].run(checkpoint=tmp_path / "run.ckpt")
    assert_same(SAVED["DGD"].run(engine=HERE_ENGINES[engine], resume=tmp_path / "run.ckpt"), references["DGD"])


@pytest.mark.parametrize("engine", HERE_ENGINES)
def test_fewer_rounds_than_done_are_refused(engine, forked, tmp_path):
    SAVED["DGD"].run(checkpoint=tmp_path / "run.ckpt")
    with pytest.raises(ValueError, match="rounds must be at least the checkpoint's, 13; got 8"):
        SAVED["DGD"].run(engine=HERE_ENGINES[engine], rounds=8, resume=tmp_path / "run.ckpt")


@pytest.mark.parametrize("engine", HERE_ENGINES)
def test_a_tolerance_met_is_still_met(engine, forked, tmp_path):
    case, path = engine_cases.special()["tolerance"], tmp_path / "run.ckpt"
    reference = case.run()
    assert_same(case.run(engine=HERE_ENGINES[engine], checkpoint=path, every=1000), reference)
    assert_same(case.run(engine=HERE_ENGINES[engine], resume=path), reference)
    # Without it the run goes on.
    more = {"tolerance": None, "rounds": reference.rounds + 10}
    assert_same(case.run(engine=HERE_ENGINES[engine], resume=path, **more), case.run(**more))


def test_recording_at_other_rounds_does_not_change_the_iterates(references, tmp_path):
    SAVED["NEXT blocks"].run(rounds=UNTIL, checkpoint=tmp_path / "run.ckpt")
    result = SAVED["NEXT blocks"].run(record_every=2, resume=tmp_path / "run.ckpt")
    np.testing.assert_array_equal(result.w, references["NEXT blocks"].w)


# What a checkpoint is good for

GRAPH = topologies.ring(6)
TIMES = topologies.Periodic([topologies.ring(6), topologies.path(6)])
OTHER = topologies.Periodic([topologies.ring(6), nx.relabel_nodes(topologies.path(6), {0: 1, 1: 0})])  # as many edges


def arguments():
    X, y = data()
    return {
        "model": consensus.Linear(4),
        "loss": consensus.SquaredLoss(),
        "shards": consensus.partition(X, y, 6),
        "regularizer": consensus.L2(0.1),
        "reduction": "mean",
        "network": topologies.RandomEdges(GRAPH, 0.5, seed=0),
        "solver": GradientTracking(0.05),
        "start": np.zeros(5),
    }


def run(rounds=6, **changed):
    given = arguments() | changed
    names = ("model", "loss", "shards", "regularizer", "reduction")
    p = consensus.Problem(*(given.pop(name) for name in names))
    return consensus.solve(p, given.pop("network"), given.pop("solver"), rounds=rounds, **given)


def moved():
    X, y = data()
    X = X.copy()
    X[7, 2] = np.nextafter(X[7, 2], 9)
    return consensus.partition(X, y, 6)


@pytest.mark.parametrize(
    ("changed", "differing"),
    [
        ({"model": consensus.Linear(4, outputs=1, bias=False), "start": np.zeros(4)}, ["model", "start"]),
        ({"loss": consensus.Huber(1.0)}, ["loss"]),
        ({"regularizer": consensus.L2(0.2)}, ["regularizer"]),
        (
            {"regularizer": consensus.ElasticNet(0.0, 0.1), "solver": NEXT(FullLinearization(1.0), 0.5)},
            ["regularizer", "solver"],
        ),
        ({"reduction": "sum"}, ["reduction"]),
        ({"shards": moved()}, ["data"]),
        ({"shards": consensus.partition(*data(), 6, seed=1)}, ["data"]),
        ({"solver": GradientTracking(0.06)}, ["solver"]),
        ({"solver": GradientTracking(0.05, order="cta")}, ["solver"]),
        ({"solver": DGD(0.05)}, ["solver"]),
        ({"network": topologies.RandomEdges(GRAPH, 0.5, seed=1)}, ["network", "mixing matrices"]),
        ({"network": topologies.RandomEdges(GRAPH, 0.6, seed=0)}, ["network", "mixing matrices"]),
        ({"network": topologies.Static(GRAPH)}, ["network", "mixing matrices"]),
        ({"start": np.full(5, 1e-300)}, ["start"]),
    ],
)
def test_another_run_is_refused_and_what_differs_is_named(changed, differing, tmp_path):
    path = tmp_path / "run.ckpt"
    run(checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is a checkpoint of another run") as caught:
        run(rounds=9, resume=path, checkpoint=path, **changed)
    message = str(caught.value)
    assert str(path) in message
    named = [part.split(":")[0] for part in message.split("another run: ")[1].split("; ")]
    assert named == differing
    assert path.read_bytes() == before
    assert_same(run(rounds=9, resume=path), run(rounds=9))


def test_networks_that_look_alike_are_told_apart(tmp_path):
    path = tmp_path / "run.ckpt"
    run(network=TIMES, checkpoint=path)
    assert str(TIMES) == str(OTHER)  # and the first matrices are the same
    with pytest.raises(ValueError, match=r"another run: network: .*; mixing matrices: "):
        run(network=OTHER, resume=path)
    rare, other = (topologies.RandomEdges(graph, 1e-6, seed=0) for graph in (GRAPH, nx.relabel_nodes(GRAPH, {0: 1, 1: 0})))
    run(network=rare, checkpoint=path)
    assert str(rare) == str(other)
    with pytest.raises(ValueError, match=r"another run: network: .*; mixing matrices: "):
        run(network=other, resume=path)


@dataclass(frozen=True)
class Strayed:
    """A ring without edges in round ``at``, which is declared not to matter: it shows in the matrices alone."""

    at: int = field(repr=False, compare=False)
    agents: int = 6

    def key(self, round):
        return int(round == self.at)

    def weights(self, key):
        return topologies.metropolis(nx.empty_graph(6) if key else GRAPH)


@pytest.mark.parametrize("at", [0, 7])
def test_matrices_of_the_first_eight_rounds_are_compared(at, tmp_path):
    run(network=Strayed(-1), checkpoint=tmp_path / "run.ckpt")
    with pytest.raises(ValueError, match=r"another run: mixing matrices: \w+ there, \w+ here$"):
        run(network=Strayed(at), resume=tmp_path / "run.ckpt")
    assert run(network=Strayed(8), resume=tmp_path / "run.ckpt").rounds == 6


class Silent(consensus.Linear):
    """A linear model with a factor, which its text does not show."""

    def __init__(self, factor):
        super().__init__(4)
        self.factor = factor

    def _forward(self, w, x):
        return super()._forward(w, self.factor * x)


NEXT_FULL = NEXT(FullLinearization(1.0), 0.5)
HIDDEN = {  # two runs each, whose settings have the same text
    "group": lambda k: {"regularizer": consensus.GroupL1(0.1, [[0, 1], [2, 3 + k]]), "solver": NEXT_FULL},
    "box": lambda k: {"regularizer": consensus.Box(-np.ones(5), np.full(5, 1 + 1e-12 * k)), "solver": NEXT_FULL},
    "model": lambda k: {"model": Silent(1.0 + k)},
    "solver": lambda k: {"solver": DGD((lambda round: 0.1, lambda round: 0.2)[k])},
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_the_text_of_settings_hides_is_compared(name, tmp_path):
    mine, other = HIDDEN[name](0), HIDDEN[name](1)
    path, part = tmp_path / "run.ckpt", {"group": "regularizer", "box": "regularizer"}.get(name, name)
    run(checkpoint=path, **mine)
    with pytest.raises(ValueError, match=rf"another run: {part}: (.*) \[\w{{16}}\] there, \1 \[\w{{16}}\] here$"):
        run(resume=path, **other)
    assert_same(run(rounds=9, resume=path, **HIDDEN[name](0)), run(rounds=9, **mine))


def test_an_attribute_that_cannot_be_compared_is_named(tmp_path):
    locked = Silent(1.0)
    locked.parts = {"lock": threading.Lock()}
    with pytest.raises(TypeError, match=r"Silent\.parts\['lock'\] cannot be compared with another run's .*__getstate__"):
        run(model=locked, checkpoint=tmp_path / "run.ckpt")
    assert os.listdir(tmp_path) == []


def test_functions_are_known_by_their_gradients(tmp_path):
    def problem(centre):
        return consensus.Problem.from_functions(
            lambda w: np.square(w - centre).sum(axis=1) / 2, lambda w: w - centre, agents=6, parameters=2
        )

    path, rule = tmp_path / "run.ckpt", lambda round: 0.1  # prints with its address, another one each time
    consensus.solve(problem(1.0), GRAPH, DGD(rule), rounds=3, checkpoint=path)
    same = consensus.solve(problem(1.0), GRAPH, DGD(lambda round: 0.1), rounds=5, resume=path)
    np.testing.assert_array_equal(same.w, consensus.solve(problem(1.0), GRAPH, DGD(rule), rounds=5).w)
    with pytest.raises(ValueError, match="another run: data: "):
        consensus.solve(problem(1.5), GRAPH, DGD(rule), rounds=5, resume=path)


# The file


def test_a_checkpoint_is_plain_arrays(tmp_path):
    path = tmp_path / "folder that is new" / "run"
    result = run(rounds=6, checkpoint=path, every=4)
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}  # each is read: none is a pickle
    assert set(arrays) == {"about", "checksum", *(f"state.{name}" for name in ("round", "w", "y", "gradient"))} | {
        f"history.{name}" for name in result.history
    }
    assert not any(array.dtype.hasobject for array in arrays.values())
    np.testing.assert_array_equal(arrays["state.w"], result.w)
    np.testing.assert_array_equal(arrays["history.objective"], result.history["objective"])
    about = json.loads(arrays["about"].tobytes())
    assert about["format"] == FORMAT
    assert about["counts"]["messages"] == result.history["messages"][-1]


def rewrite(path, change):
    """Change a checkpoint's arrays."""
    with np.load(path) as file:
        arrays = dict(file)
    about = json.loads(arrays["about"].tobytes())
    arrays = change(arrays, about)
    if "about" in arrays:
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with open(path, "wb") as file:
        np.savez(file, **arrays)


def test_another_format_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    run(checkpoint=path)
    rewrite(path, lambda arrays, about: about.update(format=9) or arrays)
    with pytest.raises(ValueError, match=r"run\.ckpt has checkpoint format 9; this version reads format 5"):
        run(resume=path)


def contents(path):
    """All that a checkpoint holds, to compare."""
    found = load(path)
    arrays = {**found.fields, **{f"history {name}": found.history[name] for name in found.history}}
    exact = {
        name: (str(np.asarray(array).dtype), np.shape(array), np.asarray(array).tobytes()) for name, array in arrays.items()
    }
    return exact, found.counts, found.seconds, found.fingerprint


def without_times(path):
    """What a checkpoint holds, whatever time it took."""
    exact, counts, _, fingerprint = contents(path)
    return {name: value for name, value in exact.items() if name != "history seconds"}, counts, fingerprint


def small(path):
    """The bytes of a small checkpoint, and its contents."""
    p = consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), consensus.partition(np.eye(4, 2), np.arange(4.0), 3))
    consensus.solve(p, topologies.ring(3), GradientTracking(0.05), rounds=3, checkpoint=path)
    return path.read_bytes(), contents(path)


def accepted_with_other_contents(path, bits):
    """Those of ``bits`` whose flip goes unnoticed; every refusal names the file."""
    good, expected = path.read_bytes(), contents(path)
    unnoticed = []
    for bit in bits:
        spoilt = bytearray(good)
        spoilt[bit // 8] ^= 1 << bit % 8
        path.write_bytes(spoilt)
        try:
            if contents(path) != expected:
                unnoticed.append(bit)
        except ValueError as error:
            if str(path) not in str(error):
                raise
    path.write_bytes(good)
    return unnoticed


@pytest.mark.slow
def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path):
    # Zip's own sums are looked at only by who reads an array to its end: a smaller shape would pass.
    path = tmp_path / "run.ckpt"
    good, _ = small(path)
    shapes = [
        8 * byte + bit
        for text in re.finditer(rb"'shape': (\([^)]*\))", good)
        for byte in range(*text.span(1))
        for bit in range(8)
    ]
    assert len(shapes) > 400
    assert accepted_with_other_contents(path, shapes) == []
    ends = [*range(8 * 60), *range(8 * len(good) - 8 * 120, 8 * len(good))]
    anywhere = np.random.default_rng(0).choice(8 * len(good), 400, replace=False)
    assert accepted_with_other_contents(path, [*ends[::3], *anywhere.tolist()]) == []


def test_arrays_of_another_checkpoint_are_noticed(tmp_path):
    path = tmp_path / "run.ckpt"
    run(checkpoint=path)
    for change in (
        lambda arrays, _: arrays | {"state.w": arrays["state.y"]},
        lambda arrays, _: arrays | {"state.w": arrays["state.w"].astype(">f8")},
        lambda arrays, _: arrays | {"state.w": arrays["state.w"].reshape(-1)},
        lambda arrays, _: arrays | {"state.more": np.zeros(6)},
        lambda arrays, _: {name: array for name, array in arrays.items() if name != "history.objective"},
        lambda arrays, _: {name: array for name, array in arrays.items() if name != "checksum"},
        lambda arrays, about: about.update(seconds=0.0) or arrays,
    ):
        good = path.read_bytes()
        rewrite(path, change)
        with pytest.raises(ValueError, match=r"run\.ckpt is damaged: its checksum is not that of its contents"):
            load(path)
        path.write_bytes(good)


def test_a_system_that_opens_no_folders_saves_too(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_DIRECTORY")
    opens = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: (os.path.isdir(path) and pytest.fail("a folder")) or opens(path, *rest))
    result = run(checkpoint=tmp_path / "run.ckpt")
    assert_same(run(resume=tmp_path / "run.ckpt"), result)


def _pickled(path):
    np.savez(path.open("wb"), about=np.array([{"format": 1}], dtype=object))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("round,objective\n0,1.0\n"),
        lambda path: path.write_bytes(path.read_bytes()[:2000]),
        lambda path: path.write_bytes(path.read_bytes()[:-10]),
        lambda path: rewrite(path, lambda arrays, about: arrays.pop("about") is None or arrays),
        lambda path: np.save(path.open("wb"), np.ones(3)),
        _pickled,
    ],
    ids=["empty", "text", "its beginning", "cut short", "other arrays", "one array", "pickle"],
)
@pytest.mark.parametrize("engine", HERE_ENGINES)
def test_what_is_no_checkpoint_is_refused(engine, spoil, tmp_path):
    path = tmp_path / "run.ckpt"
    run(checkpoint=path)
    spoil(path)
    with pytest.raises(ValueError, match=r"run\.ckpt is no checkpoint of this package"):
        run(resume=path, engine=HERE_ENGINES[engine])


@pytest.mark.parametrize("made", ["folder", "file/run.ckpt", "file/in/run.ckpt", "unwritable/run.ckpt"])
def test_a_place_that_cannot_be_written_is_refused_before_work(made, forked, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "unwritable").mkdir(mode=0o500)
    if made.startswith("unwritable"):  # root may write anywhere
        monkeypatch.setattr(tempfile, "NamedTemporaryFile", lambda dir: (_ for _ in ()).throw(PermissionError(13, "not yours")))
    monkeypatch.setattr(Stacked, "run", None)  # no work is done
    with pytest.raises(ValueError, match=r"^checkpoint must be a file.*; got .*" + re.escape(str(tmp_path / made))):
        run(checkpoint=tmp_path / made)


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        run(resume=tmp_path / "absent")


@pytest.mark.parametrize("fails", ["savez", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "ctrl-C"])
def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(fails, error, tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    run(rounds=4, checkpoint=path)
    before = path.read_bytes()

    def full(*arguments, **_):
        if fails == "savez":
            arguments[0].write(b"PK the first part of a file")
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(np if fails == "savez" else os, fails, full)
        with pytest.raises(type(error)):
            run(rounds=8, checkpoint=path, resume=path, every=1)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.ckpt"]
    assert_same(run(rounds=8, resume=path), run(rounds=8))


def test_the_disk_is_asked_to_keep_it_before_the_old_one_goes(tmp_path, monkeypatch):
    done = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, original=original: (done.append(name), original(*a))[1])
    run(rounds=0, checkpoint=tmp_path / "run.ckpt")
    assert done == ["fsync", "replace", "fsync"]  # the file, the name, the folder that has it


def test_the_second_run_with_a_path_is_told_of_the_first(tmp_path):
    path, refused = tmp_path / "run.ckpt", []

    def another(seen):
        if seen.round == 2:
            with pytest.raises(
                ValueError, match=rf"run\.ckpt is that of another run, process {os.getpid()} on \S+ since \w+"
            ) as caught:
                run(checkpoint=path, resume=path)
            refused.append(caught)

    result = run(rounds=4, checkpoint=path, every=1, callbacks=[another])
    assert len(refused) == 1
    assert os.listdir(tmp_path) == ["run.ckpt"]
    assert_same(run(rounds=4, resume=path), result)
    assert_same(run(rounds=6, resume=path, checkpoint=path), run(rounds=6))  # it is free again


@pytest.mark.parametrize("ends", ["error", "ctrl-C"])
def test_the_path_is_free_after_a_run_that_failed(ends, tmp_path):
    def fail(_):
        raise {"error": OSError, "ctrl-C": KeyboardInterrupt}[ends]

    with pytest.raises((OSError, consensus.Interrupted)):
        run(checkpoint=tmp_path / "run.ckpt", callbacks=[fail])
    assert run(checkpoint=tmp_path / "run.ckpt").rounds == 6


KILLED = """
import sys; sys.path[:0] = {path!r}
from pathlib import Path
from consensus._files import Hold
Hold(Path("run.ckpt")).take()
print("taken", flush=True)
input()
"""


def test_what_a_killed_process_leaves_is_taken_over(tmp_path):
    """Its lock ends with it; its lock file and part are removed, and no other run's."""
    others = [".other.ckpt.0123456789abcdef.part", ".run.ckpt.backup.part"]
    for name in (*others, ".run.ckpt.0123456789abcdef.part", ".run.ckpt.history.csv.0123456789abcdef.part"):
        (tmp_path / name).write_text("a part")
    script = KILLED.format(path=[str(Path(consensus.__file__).parents[1])])
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True, cwd=tmp_path) as holder:
        assert holder.stdout.readline() == "taken\n"
        with pytest.raises(ValueError, match=f"another run, process {holder.pid} on "):
            run(checkpoint=tmp_path / "run.ckpt")
        holder.kill()
    assert (tmp_path / ".run.ckpt.lock").exists()
    run(checkpoint=tmp_path / "run.ckpt")
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "run.ckpt"])


def test_two_writers_have_a_part_each(tmp_path, monkeypatch):
    path, other, original = tmp_path / "run.npz", tmp_path / "other.npz", np.savez
    once = [lambda: result.save(path)]
    result = run()
    result.save(other)

    def meanwhile(file, **arrays):
        original(file, **arrays)
        if once:
            once.pop()()

    monkeypatch.setattr(np, "savez", meanwhile)
    result.save(path)
    assert sorted(os.listdir(tmp_path)) == ["other.npz", "run.npz"]
    assert path.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("planted", [".run.ckpt.part", ".run.ckpt.0000000000000000.part", ".run.ckpt.lock", "run.ckpt"])
def test_a_planted_link_is_not_followed(planted, tmp_path, monkeypatch):
    (tmp_path / "precious").write_text("keep me")
    (tmp_path / planted).symlink_to(tmp_path / "precious")
    if "0000" in planted:
        monkeypatch.setattr("consensus._files.secrets.token_hex", lambda _: "0" * 16)
        monkeypatch.setattr("consensus._files.Hold.take", lambda _: None)  # which would remove it
    with suppress(OSError):
        run(checkpoint=tmp_path / "run.ckpt")
    assert (tmp_path / "precious").read_text() == "keep me"


def test_what_is_no_file_is_written_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    result = run()
    result.history.to_csv(tmp_path / "pipe")
    result.history.to_csv(tmp_path / "file")
    assert reader.communicate()[0] == (tmp_path / "file").read_bytes()
    assert (tmp_path / "pipe").is_fifo()


class WithWords(NamedTuple):
    """A state that is more than numbers."""

    round: int
    w: np.ndarray
    words: object


class Worded(Solver):
    """A solver whose state a checkpoint cannot hold."""

    def init(self, problem, w):
        return WithWords(0, w, {"a": 1})

    def step(self, problem, network, state):
        return state._replace(round=state.round + 1)


def test_states_that_cannot_be_saved_are_named(tmp_path):
    with pytest.raises(TypeError, match=r"arrays of numbers only, without pickle; not so state\.words"):
        run(solver=Worded(), checkpoint=tmp_path / "run.ckpt")
    assert os.listdir(tmp_path) == []


class WithCommon(NamedTuple):
    """A state with a vector that all agents have in common."""

    round: int
    w: np.ndarray
    common: np.ndarray


class Common(Worded):
    """A solver whose state cannot be taken apart by agents."""

    def init(self, problem, w):
        return WithCommon(0, w, np.arange(11.0))


@pytest.mark.parametrize("engine", HERE_ENGINES)
def test_states_that_are_not_stacked_are_named(engine, forked, tmp_path):
    with pytest.raises(
        TypeError, match=r"arrays of shape \(agents, \.\.\.\), or single numbers, to be saved; not so common \("
    ):
        run(solver=Common(), checkpoint=tmp_path / "run.ckpt", engine=HERE_ENGINES[engine])
    assert os.listdir(tmp_path) == []


class Nested(NamedTuple):
    """A state with another inside."""

    round: int
    w: np.ndarray
    inside: object


@dataclass(frozen=True)
class Nesting(Worded):
    """A solver whose state has ``inside`` what it is given; that is no setting."""

    inside: object = field(repr=False, compare=False)

    def init(self, problem, w):
        return Nested(0, w, self.inside)


@pytest.mark.parametrize("engine", HERE_ENGINES)
def test_what_cannot_be_saved_of_a_nested_state_is_named(engine, forked, tmp_path):
    given = {"checkpoint": tmp_path / "run.ckpt", "engine": HERE_ENGINES[engine]}
    with pytest.raises(TypeError, match=r"without pickle; not so state\.inside\.words"):
        run(solver=Nesting(WithWords(0, np.zeros(6), None)), **given)
    with pytest.raises(TypeError, match=r"to be saved; not so inside\.common \("):
        run(solver=Nesting(WithCommon(0, 1.0, np.arange(11.0))), **given)
    assert os.listdir(tmp_path) == []


def test_a_nested_state_is_saved_under_dotted_names(tmp_path):
    SAVED["functions, a nested state"].run(checkpoint=tmp_path / "run.ckpt")
    with np.load(tmp_path / "run.ckpt") as file:
        names = {name for name in file.files if name.startswith("state.")}
        assert names == {
            f"state.{name}" for name in ("round", "w", "memory.speed.velocity", "memory.speed.kept", "memory.steps")
        }
        np.testing.assert_allclose(file["state.memory.speed.kept"], 0.9 * 0.95**13, rtol=1e-13)
        assert file["state.memory.steps"].tolist() == [13 * agent for agent in range(7)]


@pytest.mark.parametrize("engine", HERE_ENGINES)
def test_a_state_of_another_version_of_the_solver_is_refused(engine, forked, tmp_path):
    path = tmp_path / "run.ckpt"
    run(solver=Nesting(0.5), checkpoint=path)
    with pytest.raises(ValueError, match=r"Nested there lacks inside\.kept, inside\.velocity and has also inside$"):
        run(solver=Nesting(engine_cases.Speed(0.5, 0.5)), rounds=9, resume=path, engine=HERE_ENGINES[engine])


def test_going_on_counts_no_work_twice(tmp_path):
    # The structure of the state is that of an initial state, whose gradients are no part of the run.
    path = tmp_path / "run.ckpt"
    run(rounds=4, checkpoint=path)
    assert run(rounds=4, resume=path).history["gradients"][-1] == 5
    assert run(rounds=6, resume=path).history["gradients"][-1] == 7


class Scaled(NamedTuple):
    """A state with numbers of its own and of every agent."""

    round: int
    w: np.ndarray
    scale: float
    ages: np.ndarray


class OfOnesOwn(Solver):
    """A user's solver with a state of several kinds of numbers."""

    def init(self, problem, w):
        return Scaled(0, w, 0.5, np.zeros(len(w), int))

    def step(self, problem, network, state):
        (w,) = network.mix(state.round, state.w - state.scale * 0.1 * problem.gradient(state.w))
        return Scaled(state.round + 1, w, state.scale * 0.75, state.ages + problem.rows)


@pytest.mark.parametrize("engine", HERE_ENGINES)
def test_a_solver_of_ones_own(engine, forked, tmp_path):
    path, start = tmp_path / "run.ckpt", np.ones(5)
    run(rounds=4, solver=OfOnesOwn(), start=start, checkpoint=path, engine=HERE_ENGINES[engine])
    again = run(rounds=9, solver=OfOnesOwn(), start=start, resume=path, checkpoint=path, engine=HERE_ENGINES[engine])
    assert_same(again, run(rounds=9, solver=OfOnesOwn(), start=start))
    with np.load(path) as file:
        assert file["state.scale"] == 0.5 * 0.75**9
        assert file["state.ages"].tolist() == [9 * agent for agent in range(6)]


def test_partial_surrogates_keep_their_starting_points(tmp_path):
    # The last local minimiser is where the next local solve begins: it is part of the state.
    solver = NEXT(PartialLinearization(0.5), 0.5, tolerance=1e-2)
    X, y = data()
    changed = {
        "solver": solver,
        "loss": consensus.LogisticLoss(),
        "shards": consensus.partition(X, (y > 0).astype(float), 6),
        "regularizer": consensus.L1(0.01),
    }
    run(rounds=4, checkpoint=tmp_path / "run.ckpt", **changed)
    assert_same(run(rounds=9, resume=tmp_path / "run.ckpt", **changed), run(rounds=9, **changed))


def test_what_only_one_of_both_runs_has_is_a_difference():
    kept = Checkpoint({"round": 3}, consensus.History(), {}, 0.0, {"solver": "a", "network": "b"})
    for ours in ({"solver": "a"}, {"solver": "a", "network": "b", "start": "c"}):
        with pytest.raises(
            ValueError, match=r"run\.ckpt is a checkpoint of another run: (network: b there, None|start: None there, c) here"
        ):
            check_fits("run.ckpt", kept, ours, 3)
    check_fits("run.ckpt", kept, dict(kept.fingerprint), 3)
