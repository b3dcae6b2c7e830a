"""Checkpoints: a resumed run is the run that was never stopped, to the bit, whatever engines it went through."""

import os
import shutil
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest

import consensus
from consensus.solvers import AdaptiveNEXT, ExactDiffusion, GradientTracking, Solver
from tests.helpers import engine_cases
from tests.helpers.checkpoints import ENGINES, GRAPH, run, without_times
from tests.helpers.engine_harness import assert_same, on_ranks, read
from tests.helpers.turns import in_turn, with_slow

SAVED, UNTIL = engine_cases.saved(), engine_cases.UNTIL


@pytest.fixture(scope="module")
def references():
    return engine_cases.Runs(SAVED)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The folder of what runs in one process save; that of other engines has the same contents, and is resumed alike."""
    folder = tmp_path_factory.mktemp("stacked")
    for name, case in SAVED.items():
        case.run(rounds=UNTIL, checkpoint=folder / name)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_resumed_run_is_the_uninterrupted_one(engine, checkpoints, references, forked, tmp_path):
    for name, case in SAVED.items():
        case.run(engine=ENGINES[engine], rounds=UNTIL, checkpoint=tmp_path / name)
        assert without_times(tmp_path / name) == without_times(checkpoints / name), name
        assert_same(case.run(engine=ENGINES[engine], resume=tmp_path / name), references[name], name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mpi", "torch"])
def test_ranks_save_and_resume_the_same(kind, checkpoints, references, tmp_path):
    shutil.copytree(checkpoints, tmp_path / "stacked")
    assert on_ranks(3, "resume", tmp_path, kind) == {"differ": []}
    for name in SAVED:
        assert without_times(tmp_path / "ranks" / name) == without_times(checkpoints / name), name
        assert_same(read(tmp_path / "resumed" / f"{name}.npz"), references[name], name)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "at"), in_turn(ENGINES, [1, 4, 9]))
def test_ctrl_c_says_how_to_go_on(engine, at, forked, tmp_path):
    uninterrupted = SAVED["functions, tracking"]._replace(solver=engine_cases.CtrlC(0.02))
    case, path = uninterrupted._replace(solver=engine_cases.CtrlC(0.02, at=at)), tmp_path / "run.ckpt"
    with pytest.raises(consensus.Interrupted) as caught:
        case.run(engine=ENGINES[engine], checkpoint=path)
    result = caught.value.result
    assert f"resume={str(path)!r}" in str(caught.value)
    assert f"after round {result.rounds};" in str(caught.value)
    assert at - 3 < result.rounds <= at  # at least the last round that was recorded or saved
    np.testing.assert_array_equal(result.w, uninterrupted.run(rounds=result.rounds).w)
    assert_same(uninterrupted.run(engine=ENGINES[engine], resume=path), uninterrupted.run())


def test_ctrl_c_without_a_checkpoint():
    case = SAVED["functions, tracking"]._replace(solver=engine_cases.CtrlC(0.02, at=4))
    with pytest.raises(consensus.Interrupted, match=r"after round 4;.*start=error\.result\.w"):
        case.run()


@pytest.mark.slow
def test_a_run_may_be_stopped_again_and_again(references, tmp_path):
    case, path = SAVED["NEXT partial logistic L1"], tmp_path / "run.ckpt"
    case.run(rounds=1, checkpoint=path)
    for rounds in (2, 5, 6, 9, 13):
        result = case.run(rounds=rounds, checkpoint=path, resume=path)
    assert_same(result, references["NEXT partial logistic L1"])
    assert os.listdir(tmp_path) == ["run.ckpt"]


@pytest.mark.parametrize("engine", with_slow(ENGINES, "processes"))
def test_a_finished_run_takes_more_rounds_but_not_fewer(engine, references, forked, tmp_path):
    case, path, engine = SAVED["DGD"], tmp_path / "run.ckpt", ENGINES[engine]
    finished = case.run(checkpoint=path)
    assert_same(finished, references["DGD"])
    assert finished.history["round"].tolist() == [0, 3, 6, 9, 12, 13]
    assert_same(case.run(engine=engine, resume=path), finished)
    longer = case.run(engine=engine, rounds=20, resume=path)
    assert_same(longer, case.run(rounds=20))
    assert longer.history["round"].tolist() == [0, 3, 6, 9, 12, 15, 18, 20]
    with pytest.raises(ValueError, match="rounds must be at least the checkpoint's, 13; got 8"):
        case.run(engine=engine, rounds=8, resume=path)


@pytest.mark.parametrize("engine", with_slow(ENGINES, "processes"))
def test_a_tolerance_met_is_still_met(engine, forked, tmp_path):
    case, path, engine = engine_cases.special()["tolerance"], tmp_path / "run.ckpt", ENGINES[engine]
    reference = case.run()
    assert_same(case.run(engine=engine, checkpoint=path, every=1000), reference)
    assert_same(case.run(engine=engine, resume=path), reference)
    more = {"tolerance": None, "rounds": reference.rounds + 10}  # without it the run goes on
    assert_same(case.run(engine=engine, resume=path, **more), case.run(**more))


@pytest.mark.parametrize(
    "solver", [GradientTracking(0.05), ExactDiffusion(0.05), AdaptiveNEXT()], ids=lambda s: type(s).__name__
)
def test_a_resumed_run_computes_no_gradient_of_its_start_again(solver, tmp_path):
    asked = []

    def gradient(w, rows):
        asked.append(len(rows))
        return 2 * (w - rows[:, None])

    problem = consensus.Problem.from_functions(lambda w, rows: ((w - rows[:, None]) ** 2).sum(1), gradient, 6, 2)
    options, path = {"record_every": 100, "start": np.ones(2)}, tmp_path / "run.ckpt"

    consensus.solve(problem, GRAPH, solver, rounds=3, checkpoint=path, **options)
    asked.clear()
    consensus.solve(problem, GRAPH, solver, rounds=7, resume=path, **options)
    assert len(asked) == 1 + 4 + 1  # the trial of the functions, four rounds, and the row of the last one


def test_recording_at_other_rounds_does_not_change_the_iterates(references, tmp_path):
    SAVED["NEXT blocks"].run(rounds=UNTIL, checkpoint=tmp_path / "run.ckpt")
    result = SAVED["NEXT blocks"].run(record_every=2, resume=tmp_path / "run.ckpt")
    np.testing.assert_array_equal(result.w, references["NEXT blocks"].w)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_nested_state_is_saved_under_dotted_names(engine, references, forked, tmp_path):
    case, path, given = SAVED["functions, a nested state"], tmp_path / "run.ckpt", {"engine": ENGINES[engine]}
    case.run(rounds=4, checkpoint=path, **given)
    result = case.run(resume=path, checkpoint=path, **given)
    assert_same(result, references["functions, a nested state"])
    with np.load(path) as file:
        inner = {"round", "w", "memory.speed.velocity", "memory.speed.kept", "memory.steps"}
        assert {name for name in file.files if name.startswith("state.")} == {f"state.{name}" for name in inner}
        np.testing.assert_allclose(file["state.memory.speed.kept"], 0.9 * 0.95**13, rtol=1e-13)
        assert file["state.memory.steps"].tolist() == [13 * agent for agent in range(7)]


NUMBERS = r"arrays of numbers only, without pickle; not so state\."
STACKED = r"arrays of shape \(agents, \.\.\.\), or single numbers, to be saved; not so "


class Nested(NamedTuple):
    """A state with anything inside."""

    round: int
    w: np.ndarray
    inside: object


@dataclass(frozen=True)
class Mine(Solver):
    """Its states have ``inside`` what it is given; that is no setting."""

    inside: object = field(repr=False, compare=False)

    def init(self, problem, w):
        return Nested(0, w, self.inside)

    def step(self, problem, network, state):
        return state._replace(round=state.round + 1)


@pytest.mark.parametrize("engine", with_slow(ENGINES, "processes"))
@pytest.mark.parametrize(
    ("inside", "match"),
    [
        ({"a": 1}, NUMBERS + "inside"),
        (np.arange(11.0), STACKED + r"inside \("),
        (engine_cases.Speed(np.zeros(6), None), NUMBERS + r"inside\.kept"),
        (engine_cases.Speed(np.arange(11.0), 1.0), STACKED + r"inside\.velocity \("),
    ],
)
def test_fields_that_cannot_be_saved_are_named(engine, inside, match, forked, tmp_path):
    """Words, and a vector that all agents have in common."""
    with pytest.raises(TypeError, match=match):
        run(solver=Mine(inside), checkpoint=tmp_path / "run.ckpt", engine=ENGINES[engine])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_state_of_another_version_of_the_solver_is_refused(engine, forked, tmp_path):
    path = tmp_path / "run.ckpt"
    run(solver=Mine(0.5), checkpoint=path)
    with pytest.raises(ValueError, match=r"Nested there lacks inside\.kept, inside\.velocity and has also inside$"):
        run(solver=Mine(engine_cases.Speed(0.5, 0.5)), rounds=9, resume=path, engine=ENGINES[engine])
