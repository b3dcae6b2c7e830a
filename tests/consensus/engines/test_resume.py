"""Checkpoints: a resumed run is the run that was never stopped, to the bit; a run of other settings is refused."""

import os
import shutil
import threading
from dataclasses import dataclass, field
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.checkpoints.checkpoint import Checkpoint, check_fits, known_by
from consensus.observe import EarlyStopping
from consensus.solvers import DGD, NEXT, AdaptiveNEXT, ExactDiffusion, GradientTracking, Solver
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers import engine_cases
from tests.helpers.checkpoints import ENGINES, GRAPH, run, without_times
from tests.helpers.engine_harness import assert_same, mpiexec, on_ranks, read
from tests.helpers.problems import data
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
@pytest.mark.parametrize(("inside", "match"), [
    ({"a": 1}, NUMBERS + "inside"),
    (np.arange(11.0), STACKED + r"inside \("),
    (engine_cases.Speed(np.zeros(6), None), NUMBERS + r"inside\.kept"),
    (engine_cases.Speed(np.arange(11.0), 1.0), STACKED + r"inside\.velocity \("),
])  # fmt: skip
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


# A checkpoint is resumed by the run that wrote it alone: what differs is named.
NEXT_FULL, SWAP = NEXT(FullLinearization(1.0), 0.5), {0: 1, 1: 0}


def moved():
    """The shards with one feature one rounding away."""
    X, y = data()
    X = X.copy()
    X[7, 2] = np.nextafter(X[7, 2], 9)
    return consensus.partition(X, y, 6)


@pytest.mark.parametrize(("changed", "differing"), [
    ({"model": consensus.Linear(4, outputs=1, bias=False), "start": np.zeros(4)}, ["model", "start"]),
    ({"loss": consensus.Huber(1.0)}, ["loss"]),
    ({"regularizer": consensus.L2(0.2)}, ["regularizer"]),
    ({"regularizer": consensus.ElasticNet(0.0, 0.1), "solver": NEXT_FULL}, ["regularizer", "solver"]),
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
])  # fmt: skip
def test_another_run_is_refused_and_the_difference_is_named(changed, differing, tmp_path):
    path = tmp_path / "run.ckpt"
    run(checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is a checkpoint of another run") as caught:
        run(rounds=9, resume=path, checkpoint=path, **changed)
    message = str(caught.value)
    assert str(path) in message
    assert [part.split(":")[0] for part in message.split("another run: ")[1].split("; ")] == differing
    assert path.read_bytes() == before
    assert_same(run(rounds=9, resume=path), run(rounds=9))


@pytest.mark.parametrize("network", [
    lambda names: topologies.Periodic([GRAPH, nx.relabel_nodes(topologies.path(6), names)]),
    lambda names: topologies.RandomEdges(nx.relabel_nodes(GRAPH, names), 1e-6, seed=0),
], ids=["a later graph", "rare edges"])  # fmt: skip
def test_networks_that_look_alike_are_told_apart(network, tmp_path):
    mine, other, path = network({}), network(SWAP), tmp_path / "run.ckpt"
    run(network=mine, checkpoint=path)
    assert str(mine) == str(other)  # and the first matrices are the same
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


def test_matrices_of_the_first_eight_rounds_are_compared(tmp_path):
    path = tmp_path / "run.ckpt"
    run(network=Strayed(-1), checkpoint=path)
    for at in (0, 7):
        with pytest.raises(ValueError, match=r"another run: mixing matrices: \w+ there, \w+ here$"):
            run(network=Strayed(at), resume=path)
    assert run(network=Strayed(8), resume=path).rounds == 6


class Silent(consensus.Linear):
    """A linear model with a factor, which its text does not show."""

    def __init__(self, factor):
        super().__init__(4)
        self.factor = factor

    def _forward(self, w, x):
        return super()._forward(w, self.factor * x)


@pytest.mark.parametrize(("named", "mine", "other"), [
    ("model", Silent(1.0), Silent(2.0)),
    ("solver", DGD(lambda round: 0.1), DGD(lambda round: 0.2)),
    ("regularizer", *(consensus.Box(-np.ones(5), np.full(5, 1 + x)) for x in (0, 1e-12))),
])  # fmt: skip
def test_settings_that_print_alike_are_told_apart(named, mine, other, tmp_path):
    path, more = tmp_path / "run.ckpt", {"solver": NEXT_FULL} if named == "regularizer" else {}
    run(checkpoint=path, **more, **{named: mine})
    with pytest.raises(ValueError, match=rf"another run: {named}: (.*) \[\w{{16}}\] there, \1 \[\w{{16}}\] here$"):
        run(resume=path, **more, **{named: other})


def test_an_attribute_that_cannot_be_compared_is_named(tmp_path):
    locked = Silent(1.0)
    locked.parts = {"lock": threading.Lock()}
    with pytest.raises(TypeError, match=r"Silent\.parts\['lock'\] cannot be compared with another run's .*__getstate__"):
        run(model=locked, checkpoint=tmp_path / "run.ckpt")
    assert os.listdir(tmp_path) == []


def test_a_setting_is_known_alike_wherever_its_class_is():
    """The digest of a class must not change when it moves to another file."""
    assert known_by(Diminishing(0.8, 0.005)).endswith("[2f9ec4ce254b6f2b]")
    assert known_by(PartialLinearization(1.0)).endswith("[785cf2058315ff57]")


def test_functions_are_known_by_their_gradients(tmp_path):
    def solve(centre, rule, **options):
        problem = consensus.Problem.from_functions(
            lambda w: np.square(w - centre).sum(axis=1) / 2, lambda w: w - centre, agents=6, parameters=2
        )
        return consensus.solve(problem, GRAPH, DGD(rule), **options)

    path = tmp_path / "run.ckpt"  # a lambda prints with its address, another one each time
    solve(1.0, lambda round: 0.1, rounds=3, checkpoint=path)
    same = solve(1.0, lambda round: 0.1, rounds=5, resume=path)
    np.testing.assert_array_equal(same.w, solve(1.0, lambda round: 0.1, rounds=5).w)
    with pytest.raises(ValueError, match="another run: data: "):
        solve(1.5, lambda round: 0.1, rounds=5, resume=path)


def test_a_property_of_only_one_of_both_runs_is_a_difference():
    kept = Checkpoint({"round": 3}, consensus.History(), {}, 0.0, {"solver": "a", "network": "b"})
    for ours, said in (
        ({"solver": "a"}, "network: b there, None"),
        (kept.fingerprint | {"start": "c"}, "start: None there, c"),
    ):
        with pytest.raises(ValueError, match=rf"run\.ckpt is a checkpoint of another run: {said} here"):
            check_fits("run.ckpt", kept, ours, 3)
    check_fits("run.ckpt", kept, dict(kept.fingerprint), 3)


# The identity of a run is all that its history depends on: test sets, metrics and samples of measurements, too.

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = X @ [1.0, 2.0, 3.0]
A, B = (X[40:], Y[40:]), (X[40:], Y[40:] + 1)


def problem():
    return consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), consensus.partition(X[:40], Y[:40], agents=4))


def recorded(rounds=10, **options):
    return consensus.solve(problem(), topologies.ring(4), DGD(0.1), rounds=rounds, record_every=5, **options)


def first(w):
    return float(w[0])


def second(w):
    return float(w[1])


CHANGES = {
    "test set": ({"test": A}, {"test": B}),
    "shards of tests": ({"test": consensus.partition(*A, agents=4)}, {"test": consensus.partition(*B, agents=4)}),
    "metric m": ({"metrics": {"m": first}}, {"metrics": {"m": second}}),
    "metrics_on": ({"metrics_on": 2}, {}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_run_resumes_with_what_it_recorded(name, tmp_path):
    before, after = CHANGES[name]
    recorded(checkpoint=tmp_path / "a", **before)
    whole, resumed = recorded(20, **before), recorded(20, resume=tmp_path / "a", **before)
    for column in set(whole.history) - {"seconds"}:
        np.testing.assert_array_equal(whole.history[column], resumed.history[column])
    shown = "test set" if name.startswith("shards") else name
    with pytest.raises(ValueError, match=rf"a is a checkpoint of another run: {shown}: .* there, .* here"):
        recorded(20, resume=tmp_path / "a", **after)


def test_a_metric_that_is_no_number_yet_resumes(tmp_path):
    metric = {"m": correlation}
    options = {"metrics": metric, "keep": "m", "start": np.zeros(4)}
    solver = DGD(0.1)

    def solve(rounds, **more):
        return consensus.solve(problem(), topologies.ring(4), solver, rounds=rounds, record_every=50, **options, **more)

    solve(20, checkpoint=tmp_path / "a")
    resumed, whole = solve(100, resume=tmp_path / "a"), solve(100)
    assert resumed.best[:3] == whole.best[:3]
    np.testing.assert_array_equal(resumed.history["m"], whole.history["m"])


def correlation(w):
    return float("nan") if not w.any() else float(-w[0])


def test_early_stopping_looks_at_each_row_once():
    for least in (0.0, 0.01):
        rule = EarlyStopping(column="value", patience=3, least=least)
        history, values = consensus.History(), [5.0, 4.0, np.nan, 4.5, 3.995, 3.99, 3.5, 3.6, 3.7, 3.8]
        for k, value in enumerate(values):
            history.append({"round": k, "value": value})
            info = consensus.observe.RoundInfo(k, history.last(), history, None, None, None)
            best, since = np.inf, 0
            for one in values[: k + 1]:
                best, since = (one, 0) if one < best - least else (best, since + 1)
            reason = rule(info)
            assert (reason is not None) == (since >= 3)


@pytest.mark.slow
def test_ranks_with_different_test_sets_are_refused(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import numpy as np, consensus, topologies\n"
        "from mpi4py import MPI\n"
        "X = np.random.default_rng(0).standard_normal((30, 3))\n"
        "p = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), consensus.partition(X, X[:, 0], agents=3))\n"
        "test = X, X[:, 0] + MPI.COMM_WORLD.rank\n"
        "try:\n"
        "    consensus.solve(p, topologies.path(3), consensus.solvers.DGD(0.1), rounds=3, engine='mpi', test=test)\n"
        "except ValueError as error:\n"
        "    print('refused:', error)\n"
    )
    found = mpiexec(2, script)
    assert found.stdout.count("refused:") == 2
    assert "test set" in found.stdout
