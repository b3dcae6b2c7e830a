"""Test sets of owners, and those that are read as they are needed."""

import numpy as np
import pandas as pd
import pytest

import consensus
import topologies
from consensus.data import LazyShards, own
from consensus.engines import Processes
from consensus.observe import EarlyStopping
from consensus.problems import LazyProblem
from consensus.solvers import DGD
from consensus.testing.threads import Threads
from tests.helpers import owners
from tests.helpers.engine_harness import assert_same
from tests.helpers.problems import problem
from tests.helpers.refusals import refusals


@pytest.fixture(scope="module")
def tables():
    return [table.drop(columns="outcome") for table in owners.hospitals()]


@pytest.fixture(scope="module")
def owned(tables):
    return own(tables, "days", categories=["ward"], test_size=0.25, seed=3)


def run(owned, test=None, **settings):
    settings = {"rounds": 30, "record_every": 10, "test": owned.test if test is None else test} | settings
    problem = consensus.Problem(consensus.MLP([7, 5, 1]), consensus.SquaredLoss(), owned.shards)
    return consensus.solve(problem, topologies.ring(4), DGD(0.5), **settings)


def test_each_owner_puts_its_own_rows_aside(owned, tables):
    sizes = [round(0.25 * size) for size in owners.SIZES]
    assert owned.test.sizes.tolist() == sizes
    assert (owned.shards.sizes + owned.test.sizes).tolist() == list(owners.SIZES)
    everything, training = pd.concat(tables, ignore_index=True)[tables[0].columns], owned.shards.indices
    training, tested = (np.sort(part[part >= 0]) for part in (training, owned.test.indices))
    np.testing.assert_array_equal(np.sort(np.concatenate([training, tested])), np.arange(len(everything)))
    ages = everything.age.to_numpy()
    np.testing.assert_allclose(owned.pipeline.mean[0], ages[training].mean(), rtol=1e-14)  # of training rows alone
    np.testing.assert_allclose(owned.pipeline.scale[0], ages[training].std(), rtol=1e-13)
    for row in range(4):
        at = owned.test.indices[row, : sizes[row]]
        np.testing.assert_array_equal(owned.test.features[row, : sizes[row]], owned.pipeline.transform(everything.iloc[at]))
        np.testing.assert_array_equal(owned.test.targets[row, : sizes[row]], owned.pipeline.targets(everything.iloc[at]))
    other = own(tables, "days", categories=["ward"], test_size=0.25, seed=4)
    assert not np.array_equal(other.test.indices, owned.test.indices)


def test_errors_are_those_of_the_pooled_test_set_and_of_each_owner(owned):
    real = owned.test.weights > 0
    pooled = owned.test.features[real], owned.test.targets[real]
    here, there = run(owned).history, run(owned, pooled).history
    for column in ("test_error", "test_error_worst"):
        np.testing.assert_allclose(here[column], there[column], rtol=1e-13)
    for owner, size in enumerate(owned.test.sizes):
        alone = run(owned, (owned.test.features[owner, :size], owned.test.targets[owner, :size])).history
        np.testing.assert_allclose(here["agent_test_error"][:, owner], alone["test_error"], rtol=1e-13)
    shares = owned.test.sizes / owned.test.sizes.sum()
    np.testing.assert_allclose(here["agent_test_error"] @ shares, here["test_error"], rtol=1e-13)
    assert here["test_error"][-1] < 0.7 * here["test_error"][0]


@pytest.mark.slow
def test_engines_and_a_break_change_no_bit(owned, tmp_path, forked):
    whole, path = run(owned), tmp_path / "run.ckpt"
    run(owned, rounds=20, checkpoint=path)
    for again in (run(owned, resume=path), run(owned, engine=Processes(workers=2)), run(owned, engine=Threads(2))):
        for column in ("test_error", "test_error_worst", "agent_test_error"):
            np.testing.assert_array_equal(again.history[column], whole.history[column])
    stopped = run(owned, callbacks=[EarlyStopping(patience=3)], record_every=5, rounds=3000)
    assert stopped.rounds < 3000
    assert stopped.best.column == "test_error"
    whole.history.to_csv(tmp_path / "run.csv")
    assert "agent_test_error_3" in consensus.History.from_csv(tmp_path / "run.csv")


def test_labels_that_do_not_count_are_left_out():
    rng = np.random.default_rng(0)
    X, y, whose = rng.standard_normal((40, 3)), rng.integers(0, 3, 40), np.arange(40) % 4
    y[:9] = 0
    shards, test = (consensus.partition(X, y, groups=whose) for _ in range(2))
    loss = consensus.CrossEntropy(ignore_index=0)
    problem = consensus.Problem(consensus.Linear(3, 3), loss, shards, consensus.L2(0.1))
    settings = {"rounds": 3, "record_every": 1}
    here, there = (consensus.solve(problem, topologies.ring(4), DGD(0.5), test=each, **settings) for each in (test, (X, y)))
    np.testing.assert_allclose(here.history["test_error"], there.history["test_error"], rtol=1e-13)


def test_test_sets_that_do_not_fit_are_refused(owned, tables):
    X, y = np.ones((8, 3)), np.ones(8)
    other = consensus.partition(X, y, agents=4)
    for test, error in (
        (other, r"test features must have shape \(7,\) a sample, as in training; got \(3,\)"),
        (
            consensus.partition(X, y, agents=3),
            r"test must have the agents \[0, 1, 2, 3\] of 4, as the problem; got \[0, 1, 2\]",
        ),
        (owned.test.restrict([0, 1]), r"test must have the agents \[0, 1, 2, 3\] of 4, as the problem; got \[0, 1\] of 4"),
        (
            consensus.partition(np.ones((8, 7)), y, agents=4, sample_weight=np.full(8, 2.0)),
            "test must have samples of weight 1; got a total weight of 16",
        ),
    ):
        with pytest.raises(ValueError, match=error):
            run(owned, test)
    functions = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=4, parameters=1)
    with pytest.raises(TypeError, match=r"test of owners needs a consensus.Problem"):
        consensus.solve(functions, topologies.ring(4), DGD(0.1), rounds=1, test=owned.test)
    with pytest.raises(ValueError, match="test_size must be a finite number > 0 and < 1; got 1"):
        own(tables, "days", categories=["ward"], test_size=1)
    with pytest.raises(ValueError, match="data must have at least 2 rows, one of them for the test; got 1"):
        own(tables[0][:1], "days", categories=["ward"], test_size=0.5)


# Test sets that are read as they are needed, against PyTorch and those in memory.
RING = topologies.ring(3)
rng = np.random.default_rng(0)
PARTS = [(rng.standard_normal((size, 4)), rng.integers(0, 3, size)) for size in (7, 12, 9)]
HELD_OUT = rng.standard_normal((23, 4)), rng.integers(0, 3, 23)


def lazy(chunk=256, loss=None):
    shards = LazyShards.from_list(PARTS, chunk=chunk)
    return LazyProblem(consensus.MLP([4, 3, 3]), loss or consensus.CrossEntropy(), shards)


def errors(problem, test):
    history = consensus.solve(problem, RING, DGD(0.2, batch=3), rounds=4, record_every=1, test=test).history
    return np.stack([history["test_error"], history["test_error_worst"]])


def mapped(folder, *arrays):
    for number, array in enumerate(arrays):
        np.save(folder / f"{number}.npy", array)
    return tuple(np.load(folder / f"{number}.npy", mmap_mode="r") for number in range(len(arrays)))


@pytest.mark.parametrize("chunk", [5, 256])
def test_datasets_and_mapped_arrays_have_the_errors_of_those_in_memory(chunk, tmp_path):
    wanted = errors(lazy(), HELD_OUT)
    assert len(np.unique(wanted)) > 2
    for test in (list(zip(*HELD_OUT, strict=True)), mapped(tmp_path, *HELD_OUT)):
        np.testing.assert_allclose(errors(lazy(chunk), test), wanted, rtol=1e-13)


def test_labels_that_are_ignored_do_not_count(tmp_path):
    X, y = HELD_OUT
    loss, some = consensus.CrossEntropy(ignore_index=-1), np.where(np.arange(23) % 3, y, -1)
    wanted = errors(lazy(), (X[some >= 0], y[some >= 0]))
    np.testing.assert_allclose(errors(lazy(4, loss), mapped(tmp_path, X, some)), wanted, rtol=1e-13)
    with pytest.raises(ValueError, match=r"^test must have labels that count with CrossEntropy.*; it ignores them all$"):
        errors(lazy(4, loss), mapped(tmp_path, X, np.full(23, -1)))


def test_texts_of_unequal_length_are_those_in_pytorch():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    texts = [(torch.as_tensor(rng.integers(1, 8, length)), int(length % 3)) for length in rng.integers(2, 9, 30)]

    def collate(items):
        words = nn.utils.rnn.pad_sequence([words for words, _ in items], batch_first=True)
        return {"words": words}, [label for _, label in items]

    class Means(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(8, 5), nn.Linear(5, 3)

        def forward(self, words):
            mask = (words > 0)[:, :, None]
            return self.head(torch.tanh((mask * self.embed(words)).sum(1) / mask.sum(1)))

    torch.manual_seed(0)
    module = Means().double()
    shards = LazyShards.from_list([texts[:8], texts[8:13], texts[13:20]], collate, chunk=4)
    problem = LazyProblem(consensus.models.Torch(module), consensus.CrossEntropy(), shards)
    result = consensus.solve(problem, RING, DGD(0.5, batch=3), rounds=20, test=texts[20:])
    inputs, labels = collate(texts[20:])
    wrong = []
    for w in (result.mean, *result.w):
        module.load_state_dict(problem.model.state_dict(w))
        wrong.append(float((module(**inputs).argmax(1) != torch.tensor(labels)).double().mean()))
    assert result.history["test_error"][-1] == pytest.approx(wrong[0], rel=1e-13)
    assert result.history["test_error_worst"][-1] == pytest.approx(max(wrong[1:]), rel=1e-13)


def test_what_does_not_fit_is_refused_before_the_run():
    with pytest.raises(ValueError, match=r"^test features must have shape \(4,\) a sample, as in training; got \(5,\)$"):
        errors(lazy(), [(np.zeros(5), 1)])
    with pytest.raises(ValueError, match=r"^CrossEntropy takes integer classes 0 \.\. K - 1 .*got classes \[7"):
        errors(lazy(), [(np.zeros(4), 7)])
    with pytest.raises(TypeError, match=r"^test must have __len__ and __getitem__.*; got 3"):
        errors(lazy(), 3)
    with pytest.raises(ValueError, match=r"^datasets must have a sample.*test is empty"):
        errors(lazy(), [])


# Objectives and stationarity of a sample.

P = problem("logistic", consensus.L2(0.1), consensus.MLP([4, 6, 1]), "sizes")
RING_OF_AGENTS = topologies.ring(P.agents)


def measured(problem=P, **options):
    return consensus.solve(problem, RING_OF_AGENTS, DGD(0.3), rounds=6, record_every=2, **options)


def test_rows_are_those_of_one_batch():
    rule = consensus.Minibatches(3, seed=4)
    result, batch = measured(metrics_on=rule, agent_objectives=True), rule.at(P, 0)
    point, r = result.mean, P.regularizer
    X, y = P.shards.features, P.shards.targets
    costs = np.zeros(P.agents)
    for agent, (places, weights) in enumerate(zip(batch.indices, batch.weights, strict=True)):
        for place, weight in zip(places, weights, strict=True):
            z = P.model.predict(point, X[agent, place][None])[0, 0]
            costs[agent] += weight * P.weights[agent, place] * (np.logaddexp(0, z) - y[agent, place, 0] * z)
    np.testing.assert_allclose(result.history["objective"][-1], costs.sum() + r.value(point), rtol=1e-12)
    everywhere = np.broadcast_to(point, (P.agents, len(point)))
    total = P.gradient(everywhere, batch).sum(axis=0) + 0.1 * point
    np.testing.assert_allclose(result.history["stationarity"][-1], np.linalg.norm(total) / 1.1, rtol=1e-12)
    assert_same(measured(), measured(metrics_on=None))
    np.testing.assert_array_equal(result.w, measured().w)  # only what is seen of a run is another


def test_all_samples_are_all_samples():
    most = int(P.shards.sizes.max())
    assert_same(measured(metrics_on=most), measured())


@pytest.mark.slow
def test_engines_and_resumed_runs_measure_on_the_same_samples(tmp_path, forked):
    whole = measured(metrics_on=2)
    assert_same(measured(metrics_on=2, engine=Processes(2)), whole)
    path = tmp_path / "run.ckpt"
    consensus.solve(P, RING_OF_AGENTS, DGD(0.3), rounds=2, record_every=2, metrics_on=2, checkpoint=path)
    assert_same(measured(metrics_on=2, resume=path), whole)


def test_costs_that_are_functions_have_no_samples():
    functions = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=P.agents, parameters=2)
    with pytest.raises(TypeError, match="minibatches need a problem with samples"):
        measured(functions, metrics_on=2)


test_refusals = refusals(
    (lambda: measured(metrics_on=0), ValueError, "metrics_on must be a whole number >= 1; got 0"),
    (lambda: measured(metrics_on=1000), ValueError, "^metrics_on does not fit: size of Minibatches must be at most"),
    (lambda: measured(metrics_on="some"), TypeError, "metrics_on must be a number of samples or a rule"),
)
