"""Options of a run in two objects, of solve and of systems with a server: they mean what the keywords mean."""

import numpy as np
import pytest

import consensus
import topologies
from consensus import Checkpoint, Record, centralized
from consensus.centralized import FedAvg
from consensus.checkpoints.checkpoint import load
from consensus.engines import Processes
from consensus.observe import EarlyStopping
from consensus.solvers import DGD
from tests.helpers.engine_harness import assert_same
from tests.helpers.problems import GRAPH, data, problem
from tests.helpers.refusals import refusals

TEST = data(samples=13, seed=1)
NETWORK = topologies.Static(GRAPH)


def run(rounds=12, **options):
    return consensus.solve(problem(), NETWORK, DGD(0.05), rounds=rounds, **options)


def served(rounds=12, **options):
    return centralized.solve(problem(), FedAvg(0.05, 2), rounds=rounds, **options)


ALIKE = {  # a keyword of solve, its field of a Record, and a value other than the default
    "record_every": ("every", 3),
    "metrics": ("metrics", {"norm": np.linalg.norm}),
    "test": ("test", TEST),
    "agent_objectives": ("agents", True),
    "metrics_on": ("samples", 2),
    "honest": ("honest", [0, 2, 3]),
    "keep": ("best", "objective"),
    "gather": ("gather", False),
}


@pytest.mark.parametrize("keyword", ALIKE)
def test_a_record_is_its_keywords(keyword):
    field, value = ALIKE[keyword]
    by_record, by_keyword = run(record=Record(**{field: value})), run(**{keyword: value})
    assert_same(by_record, by_keyword)
    assert str(by_record.best) == str(by_keyword.best)
    with pytest.raises(TypeError, match=rf"{keyword} beside record= is its field {field}: .*Record\({field}=\.\.\., \.\.\.\)"):
        run(record=Record(every=3), **{keyword: value})


@pytest.mark.parametrize("solve", [run, served])
def test_a_checkpoint_is_its_path_and_every(solve, tmp_path):
    def rounds_saved(name, **options):
        seen, path = [], tmp_path / name
        solve(8, callbacks=[lambda info: seen.append(load(path).round) if path.exists() else None], **options)
        return seen

    by_object = rounds_saved("a", checkpoint=Checkpoint(tmp_path / "a", every=5))
    assert by_object == rounds_saved("b", checkpoint=tmp_path / "b", every=5)
    assert 5 in by_object
    assert_same(solve(resume=tmp_path / "a"), solve())
    with pytest.raises(TypeError, match=r"every beside a Checkpoint is a field of it: write .*Checkpoint\(path, every=7\)"):
        solve(checkpoint=Checkpoint(tmp_path / "a", 5), every=7)


@pytest.mark.parametrize("solve", [run, served])
def test_the_first_of_several_rules_stops(solve):
    whole = solve(record=Record(every=1)).history
    bound = float(whole["objective"][6])
    first = solve(record=Record(every=1), stop=[f"objective <= {bound!r}", "round >= 9"])
    assert (first.rounds, first.reason.partition(":")[0].split()[0]) == (6, "objective")
    assert solve(record=Record(every=1), stop=["objective <= -1", "round >= 9"]).rounds == 9
    rules = ("objective <= -1", lambda info: "enough" if info.round == 4 else None)
    assert solve(record=Record(every=2), stop=rules).reason == "enough"
    early = solve(record=Record(every=1), stop=EarlyStopping(column="round", patience=2))
    assert early.rounds == 2
    assert early.best.column == "round"
    assert solve(stop=[]).rounds == 12
    for wrong in ("objective", 5, ["objective <= 1", 5], ["disagree <= 1"]):
        with pytest.raises(ValueError, match="stop must"):
            solve(stop=wrong)


def test_a_system_records_as_solve_does():
    record = Record(every=4, metrics={"norm": np.linalg.norm}, test=TEST, samples=3, best="test_error")
    result = served(record=record)
    assert result.history["round"].tolist() == [0, 4, 8, 12]
    assert result.best.value == result.history["test_error"].min()
    np.testing.assert_allclose(result.history["norm"][-1], np.linalg.norm(result.mean))
    assert_same(result, served(record=Record(every=4, metrics=record.metrics, test=TEST, samples=3)))
    for wrong in (Record(agents=True), Record(honest=[0])):
        with pytest.raises(ValueError, match="record of a system has neither agents nor honest"):
            served(record=wrong)


@pytest.mark.slow
def test_options_in_objects_on_workers(forked):
    options = {"record": Record(every=3, best="objective", test=TEST), "stop": ["objective <= -1", "round >= 9"]}
    assert_same(run(engine=Processes(2), **options), run(**options))


test_refusals = refusals(
    (lambda: run(record=10), TypeError, r"record must be a consensus\.Record, such as Record\(every=10\); got 10"),
    (lambda: run(record=Record(best="loss")), ValueError, r"best of record must have a column of the history.*got 'loss'"),
    (lambda: run(keep="loss"), ValueError, r"^keep must have a column"),
    (lambda: run(record=Record(best="test_error")), ValueError,
     r"a test error needs record=consensus\.Record\(test=\(X, y\)\)"),
    (lambda: run(record=Record(samples=10**6)), ValueError, r"samples of record does not fit"),
    *((lambda make=make: make(), ValueError,
     r"must be .*got 0") for make in (lambda: Record(every=0), lambda: Record(samples=0), lambda: Checkpoint("a", every=0))),
    (lambda: Checkpoint(3), TypeError, "path must be a path"),
)  # fmt: skip
