"""Problems whose samples are read as they are needed, against the same samples in memory."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.asynchronous import ADPSGD, ASYSONATA, Simulated
from consensus.data import LazyShards
from consensus.engines import Processes
from consensus.problems import Batch, LazyProblem
from consensus.solvers import DGD, NEXT, AdaptiveNEXT, GradientTracking, NetworkGIANT
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.every_solver import SOLVERS

SIZES = (5, 9, 12, 7, 11)
RING = topologies.ring(5)
RNG = np.random.default_rng(0)
PARTS = [(RNG.standard_normal((size, 4)), RNG.standard_normal(size)) for size in SIZES]
L2 = consensus.L2(0.1)
METHODS = ("DGD", "tracking, batches", "GT-SARAH", "GT-HSGD", "KGT, batches", "NEXT full", "TreeLBFGS", "DiLoCo")


class Items:
    """A dataset without arrays, as most are, that counts what is read."""

    def __init__(self, X, y):
        self.X, self.y, self.read = X, y, []

    def __len__(self):
        return len(self.X)

    def __getitem__(self, number):
        assert type(number) is int
        self.read.append(number)
        return self.X[number], self.y[number]


def memory(model=None, parts=PARTS, **options):
    return consensus.Problem(
        model or consensus.MLP([4, 3, 1]), consensus.SquaredLoss(), consensus.Shards.from_list(parts), **options
    )


def lazy(datasets=PARTS, model=None, chunk=256, **options):
    shards = LazyShards.from_list(datasets, chunk=chunk)
    return LazyProblem(model or consensus.MLP([4, 3, 1]), consensus.SquaredLoss(), shards, **options)


def mapped(folder, dtype=np.float64):
    """The same data in two files, of which agents have the rows of views."""
    pairs = []
    for name, whole in (("X", np.concatenate([X for X, _ in PARTS])), ("y", np.concatenate([y for _, y in PARTS]))):
        np.save(folder / f"{name}.npy", whole.astype(dtype))
        file = np.load(folder / f"{name}.npy", mmap_mode="r")
        pairs.append(np.split(file, np.cumsum(SIZES)[:-1]))
    return [*zip(*pairs, strict=True)]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("model", [consensus.MLP([4, 3, 1]), consensus.Linear(4)], ids=str)
def test_runs_have_the_bits_of_those_in_memory(name, model, tmp_path):
    expected = consensus.solve(memory(model, regularizer=L2), RING, SOLVERS[name], rounds=6)
    for datasets in (PARTS, [Items(*part) for part in PARTS], mapped(tmp_path)):
        found = consensus.solve(lazy(datasets, model, regularizer=L2), RING, SOLVERS[name], rounds=6)
        np.testing.assert_array_equal(found.w, expected.w)
        for column in ("objective", "stationarity", "epochs", "samples", "gradients"):
            np.testing.assert_array_equal(found.history[column], expected.history[column])


def test_surrogates_of_batches_have_the_bits_of_those_in_memory():
    solver = NEXT(FullLinearization(1.0), 0.1, batch=3)
    mine, theirs = (consensus.solve(one, RING, solver, rounds=4) for one in (lazy(regularizer=L2), memory(regularizer=L2)))
    np.testing.assert_array_equal(mine.w, theirs.w)


def test_sums_in_parts_are_those_in_memory():
    w = np.random.default_rng(1).standard_normal((5, 19))
    for options in ({"regularizer": L2}, {"regularizer": consensus.SCAD(0.1)}, {"reduction": "sum"}):
        one, other = memory(**options), lazy(chunk=5, **options)
        pairs = [[p.value(w), p.gradient(w)] for p in (one, other)]
        if one.regularizer.smooth:
            pairs = [
                [*found, p.average_gradient(w), p.descended(w, 0.3, w)] for found, p in zip(pairs, (one, other), strict=True)
            ]
        for expected, found in zip(*pairs, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)  # added up in another order
        for rows in (slice(1, 3), [4, 0]):
            np.testing.assert_array_equal(other.restrict(rows).gradient(w[rows]), other.gradient(w)[rows])
            np.testing.assert_array_equal(other.restrict(rows).value(w[rows]), other.value(w)[rows])


def test_batches_read_their_samples_alone():
    datasets = [Items(*part) for part in PARTS]
    problem = lazy(datasets, regularizer=L2)
    rule = consensus.Minibatches(8)
    for dataset in datasets:
        dataset.read.clear()
    batch = rule.at(problem, 1)
    problem.gradient(np.zeros((5, 19)), batch)
    for agent, dataset in enumerate(datasets):
        assert dataset.read == batch.indices[agent][batch.weights[agent] > 0].tolist()
    assert problem.work.samples == sum(len(dataset.read) for dataset in datasets)


@pytest.mark.slow
def test_equal_bits_on_workers_and_after_a_checkpoint(tmp_path, forked):
    files, solver, path = mapped(tmp_path), GradientTracking(0.1, batch=4), tmp_path / "run.npz"
    whole = consensus.solve(memory(regularizer=L2), RING, solver, rounds=8).w
    order = np.random.default_rng(0).permutation(sum(SIZES))  # as another partition of a file would have it
    for name in "Xy":
        np.save(tmp_path / f"{name}_shuffled.npy", np.load(tmp_path / f"{name}.npy")[order])
    everything = tuple(np.load(tmp_path / f"{name}_shuffled.npy", mmap_mode="r") for name in "Xy")
    numbers = np.split(np.argsort(order), np.cumsum(SIZES)[:-1])
    one = LazyProblem(consensus.MLP([4, 3, 1]), consensus.SquaredLoss(), LazyShards.split(everything, numbers), L2)
    several = lazy([*files[:3], *(Items(*part) for part in PARTS[3:])], regularizer=L2)
    for problem in (one, several):
        np.testing.assert_array_equal(consensus.solve(problem, RING, solver, rounds=8, engine=Processes(2)).w, whole)
    consensus.solve(several, RING, solver, rounds=5, checkpoint=path, every=5)
    np.testing.assert_array_equal(consensus.solve(several, RING, solver, rounds=8, resume=path).w, whole)
    changed = [(X + (agent == 3), y) for agent, (X, y) in enumerate(PARTS)]
    with pytest.raises(ValueError, match=r"is a checkpoint of another run: data"):
        consensus.solve(lazy(changed, regularizer=L2), RING, solver, rounds=8, resume=path)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_precision_is_that_of_the_data(dtype):
    parts = [(np.arange(24).reshape(6, 4).astype(dtype) + agent, np.arange(6) % 2) for agent in range(3)]
    one, other = memory(parts=parts), lazy([Items(*part) for part in parts])
    w = np.full((3, 19), 0.1, one.dtype)
    assert other.dtype == one.dtype
    np.testing.assert_array_equal(other.gradient(w), one.gradient(w))


def test_a_mean_is_over_labels_that_count():
    y = [np.array([0, 1, -1, 2, 2]), np.array([-1, 1, 0]), np.array([2, 0])]
    parts = [(np.random.default_rng(agent).standard_normal((len(own), 3)), own) for agent, own in enumerate(y)]
    loss, model = consensus.CrossEntropy(weight=[1.0, 2.0, 0.5], ignore_index=-1), consensus.Linear(3, 3)
    one = consensus.Problem(model, loss, consensus.Shards.from_list(parts))
    other = LazyProblem(model, loss, LazyShards.from_list(parts, chunk=2))
    w = np.random.default_rng(0).standard_normal((3, 12))
    np.testing.assert_allclose(other.gradient(w), one.gradient(w), rtol=1e-12, atol=1e-15)
    assert other.objective(w[0]) == pytest.approx(one.objective(w[0]), rel=1e-12)
    with pytest.raises(ValueError, match=r"^reduction='mean' divides by the weights of all labels .* shards of 2 of 3 agents"):
        LazyProblem(model, loss, LazyShards.from_list(parts).restrict([0, 2]))
    nothing = [(np.zeros((2, 3)), np.array([-1, -1]))] * 2
    with pytest.raises(ValueError, match=r"^samples must have labels that count"):
        LazyProblem(model, loss, LazyShards.from_list(nothing))


def test_test_sets_are_those_in_memory():
    solver, test = DGD(0.1, batch=3), PARTS[2]
    one, other = (consensus.solve(p, RING, solver, rounds=3, test=test).history for p in (memory(), lazy()))
    np.testing.assert_array_equal(other["test_error_worst"], one["test_error_worst"])
    with pytest.raises(ValueError, match=r"test features must have shape \(4,\)"):
        consensus.solve(lazy(), RING, solver, rounds=3, test=(np.zeros((2, 3)), np.zeros(2)))


def test_problems_of_a_batch_have_blocks_and_counts():
    w = np.random.default_rng(1).standard_normal((5, 19))
    batch = consensus.Minibatches(6).at(memory(), 1)
    one, other = memory().sampled(batch), lazy(chunk=2).sampled(batch)
    np.testing.assert_array_equal(other.gradient(w), one.gradient(w))
    np.testing.assert_array_equal(other.restrict([3, 1]).value(w[[3, 1]]), one.value(w)[[3, 1]])
    assert other.work == one.work
    assert other.restrict([3])._samples == one.restrict([3])._samples


def test_a_sampled_problem_has_a_cache_of_its_own():
    p = lazy()
    p.cache.get("of all samples", lambda: 1)
    one = p.sampled(consensus.Minibatches(3).at(p, 0))
    assert one.cache.get("of all samples", lambda: 2) == 2
    assert p.cache.get("of all samples", lambda: 3) == 1


def test_a_block_counts_its_own_samples_and_has_its_own_load():
    p, w = lazy(), np.random.default_rng(1).standard_normal((5, 19))
    for rows in ([2], [4, 0]):
        block = p.restrict(rows)
        np.testing.assert_array_equal(block.gradient(w[rows]), p.gradient(w)[rows])
        assert block.work.samples == np.sum([SIZES[row] for row in rows])
        np.testing.assert_array_equal(block.load, np.add([SIZES[row] for row in rows], 1.0))


def test_a_mean_is_over_the_samples_of_the_network_also_in_shards_of_some_agents():
    shards, w = LazyShards.from_list(PARTS), np.random.default_rng(1).standard_normal((5, 19))
    model, loss = consensus.MLP([4, 3, 1]), consensus.SquaredLoss()
    block = LazyProblem(model, loss, shards.restrict([1, 3]))
    np.testing.assert_array_equal(block.gradient(w[[1, 3]]), LazyProblem(model, loss, shards).gradient(w)[[1, 3]])


@pytest.mark.parametrize(("chunk", "fits"), [(max(SIZES) - 1, False), (max(SIZES), True)])
def test_a_loss_of_batches_needs_chunks_of_the_largest_shard(chunk, fits):
    torch = pytest.importorskip("torch")
    loss = consensus.losses.TorchLoss(lambda f, d: ((f - d) ** 2).mean() - f.mean() * d.mean(), over="batch")
    module = consensus.models.Torch(torch.nn.Linear(4, 1).double())
    make = lambda: LazyProblem(module, loss, LazyShards.from_list(PARTS, chunk=chunk))  # noqa: E731
    if fits:
        assert make().agents == len(PARTS)
    else:
        with pytest.raises(ValueError, match=f"give LazyShards a chunk of {max(SIZES)}"):
            make()


def test_items_that_draw_random_numbers_are_read_more_often():
    """One of a hundred readings differs: few readings would not show it."""

    class Rarely(Items):
        def __getitem__(self, number):
            changed = np.random.default_rng(len(self.read)).random() < 0.01 and np.random.random() >= 0  # noqa: NPY002
            return super().__getitem__(number)[0] + changed, self.y[number]

    count = []
    for kind in (Items, Rarely):
        try:
            lazy([kind(*part) for part in PARTS])
        except ValueError as error:
            count.append(str(error))
    assert len(count) == 1
    assert "must be the same whenever they are read" in count[0]


def test_rows_of_a_sample_read_it_alone():
    options = {"rounds": 4, "record_every": 2, "metrics_on": 3}
    datasets = [Items(*part) for part in PARTS]
    problem = lazy(datasets, chunk=2)
    rule = consensus.Minibatches(3)
    wanted = consensus.solve(memory(), RING, DGD(0.1, batch=2), **options)
    for dataset in datasets:
        dataset.read.clear()
    result = consensus.solve(problem, RING, DGD(0.1, batch=rule), **options | {"rounds": 0})
    for column in ("objective", "stationarity"):
        assert result.history[column][0] == wanted.history[column][0]
    places = rule.at(problem, 0).indices
    assert [set(dataset.read) for dataset in datasets] == [set(own.tolist()) for own in places]


@pytest.mark.slow
def test_servers_take_them():
    system = consensus.centralized.SynchronousSGD(batch=10, learning_rate=0.1, workers=2)
    one, other = (consensus.centralized.solve(p, system, rounds=4).w for p in (memory(), lazy()))
    np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize(("solver", "kind", "message"), [
    (NEXT(PartialLinearization(1.0), 0.1), TypeError, r"^NEXT\(PartialLinearization\) needs a model .* batch by batch"),
    (SOLVERS["GT-SAGA"], TypeError, "^GTSAGA needs a model to linearise, and LazyProblem.* batch by batch"),
    (SOLVERS["TreeNewton"], TypeError, "^TreeNewton needs a model to linearise"),
    (NetworkGIANT(0.1), TypeError, "^NetworkGIANT needs a model to linearise"),
    (SOLVERS["EXTRA"], TypeError, "^LazyProblem.* has no known Lipschitz constants .* give the solver a step_size="),
    (DGD(0.1, batch=13), ValueError, "^size of Minibatches must be at most 12"),
], ids=lambda value: str(value)[:30])  # fmt: skip
def test_solvers_that_need_all_samples_are_refused_by_name(solver, kind, message):
    with pytest.raises(kind, match=message):
        consensus.solve(lazy(model=consensus.Linear(4), regularizer=L2), RING, solver, rounds=1)


def test_agents_that_wake_take_gradients_of_batches():
    for solver in (ADPSGD(0.05, batch=3), ASYSONATA(FullLinearization(1.0), 0.1, batch=3)):
        one, other = (consensus.solve(p, RING, solver, rounds=4, engine=Simulated()).w for p in (memory(), lazy()))
        np.testing.assert_array_equal(other, one)


@pytest.mark.slow
def test_the_default_solver_learns_curvature_from_gradients():
    problem = lazy(model=consensus.Linear(4), regularizer=L2)
    found = consensus.solve(problem, RING, AdaptiveNEXT(), rounds=60).history
    assert found["stationarity"][-1] < 1e-4 * found["stationarity"][0]


def test_what_does_not_fit_is_refused():
    model, loss, shards = consensus.Linear(4), consensus.SquaredLoss(), LazyShards.from_list(PARTS)
    with pytest.raises(TypeError, match=r"^shards must be LazyShards; got .*: consensus.Problem takes Shards"):
        LazyProblem(model, loss, consensus.Shards.from_list(PARTS))
    with pytest.raises(TypeError, match=r"^shards must be Shards, .* LazyProblem takes others; LazyShards"):
        consensus.Problem(model, loss, shards)
    with pytest.raises(ValueError, match=r"^the shards have 4 features a sample, but Linear\(3"):
        LazyProblem(consensus.Linear(3), loss, shards)
    with pytest.raises(ValueError, match=r"^SquaredLoss needs a target for each of the model's 2 outputs"):
        LazyProblem(consensus.Linear(4, 2), loss, shards)
    with pytest.raises(TypeError, match=r"^a collate function goes with consensus.models.Torch\(module\); got Linear"):
        LazyProblem(
            model, loss, LazyShards.from_list([Items(*part) for part in PARTS], lambda items: (np.ones((3, 4)), [1, 2, 3]))
        )
    other = lazy([PARTS[0], (np.zeros((3, 5)), np.zeros(3))], model)
    with pytest.raises(ValueError, match=r"^samples of agent 1 must have features \(4,\) and 1 targets, .* got \(5,\) and 1"):
        other.value(np.zeros((2, 5)))
    odd = LazyShards.from_list([(np.zeros((3, 4)), [0, 1, 0]), (np.zeros((3, 4)), [0, 1, 2])])
    classes = LazyProblem(consensus.Linear(4, 2), consensus.CrossEntropy(), odd)
    with pytest.raises(ValueError, match=r"^targets of agent 1 do not fit: CrossEntropy takes integer classes .* of sample 2"):
        classes.value(np.zeros((2, 10)))
    with pytest.raises(ValueError, match=r"^X of the dataset of agent 1 must be finite"):
        lazy([PARTS[0], (np.full((3, 4), np.nan), np.zeros(3))], model)
    with pytest.raises(ValueError, match=r"^indices of batch must be places in a shard, 0 .. 11; got 12 of agent 0"):
        lazy().gradient(np.zeros((5, 19)), Batch(np.full((5, 1), 12), np.ones((5, 1))))
    with pytest.raises(ValueError, match=r"^indices of batch must be samples of the agents; got 8 of agent 0, which has 5"):
        lazy().gradient(np.zeros((5, 19)), Batch(np.full((5, 1), 8), np.ones((5, 1))))
