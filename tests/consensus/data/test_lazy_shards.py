"""Shards of datasets: what is read of them, what workers get, what is refused."""

import json
import subprocess
import sys

import cloudpickle
import numpy as np
import pytest

import consensus
from consensus.data import LazyShards
from consensus.problems import LazyProblem
from consensus.streaming.mapped import Rows
from consensus.streaming.sent import dumps
from tests.helpers.refusals import refusals

X, Y = np.arange(24.0).reshape(8, 3), np.arange(8)


class Items:
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, number):
        return self.items[number]


class Stream:
    """As an IterableDataset of PyTorch, which inherits ``__getitem__``."""

    def __iter__(self):
        return iter([(np.zeros(3), 0)])

    def __getitem__(self, number):
        raise NotImplementedError


def saved(folder, array, **options):
    np.save(folder / "array.npy", array)
    return np.load(folder / "array.npy", mmap_mode="r", **options)


def test_an_agent_reads_its_own_samples():
    shards = LazyShards.split((X, Y), [[6, 1], [0, 2, -1, 5], [7]])
    assert (shards.agents, shards.samples, shards.most) == (3, 6, 3)
    np.testing.assert_array_equal(shards.weights, [[True, True, False], [True] * 3, [True, False, False]])
    features, targets = shards.restrict([2, 1]).read(1, np.array([2, 0]))
    np.testing.assert_array_equal(features, X[[5, 0]])
    np.testing.assert_array_equal(targets, [[5.0], [0.0]])
    assert repr(shards.restrict(slice(1))) == "LazyShards(1 of 3 agents, 2 samples)"


def test_partitions_are_those_of_partition():
    whole = consensus.partition(X, Y, agents=3, scheme="dirichlet", seed=4)
    shards = LazyShards.split((X, Y), whole.indices)
    for agent, size in enumerate(shards.sizes):
        np.testing.assert_array_equal(shards.read(agent, np.arange(size))[0], whole.features[agent, :size])


def test_mapped_arrays_are_sent_by_their_names(tmp_path):
    whole = saved(tmp_path, np.random.default_rng(0).standard_normal((1000, 50)))
    for view in (whole, whole[100:900:7], whole.T[3:9], whole[::-1], np.asarray(whole)[5:]):
        content = dumps({"inside": view})
        assert len(content) < 2000
        np.testing.assert_array_equal(cloudpickle.loads(content)["inside"], view)
    saved(tmp_path, X)
    changed = np.load(tmp_path / "array.npy", mmap_mode="c")
    changed[0] = -1  # not in the file
    np.testing.assert_array_equal(cloudpickle.loads(dumps(changed)), changed)


def test_what_was_read_of_a_file_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr("consensus.streaming.mapped._MOST", 1)  # after every read
    np.save(tmp_path / "array.npy", X)
    for mode in ("r", "r+", "c"):
        array = np.load(tmp_path / "array.npy", mmap_mode=mode)
        if mode != "r":
            array[1] = 7.0
        rows = Rows(array)
        expected = array[[1, 5]].copy()
        for _ in range(2):
            np.testing.assert_array_equal(rows(np.array([1, 5])), expected)


def test_workers_open_their_own_datasets_alone(tmp_path):
    datasets = [(saved(tmp_path, X), Y), Items([*zip(X, Y, strict=True)])]
    problem = LazyProblem(consensus.Linear(3), consensus.SquaredLoss(), LazyShards.from_list([*datasets, datasets[0]]))
    block = problem.shared().problem().restrict([2, 0])
    first, second = block.shards.datasets
    assert first is second
    assert first._dataset is None
    w = np.ones((2, 4))
    np.testing.assert_array_equal(block.gradient(w), problem.gradient(np.ones((3, 4)))[[2, 0]])
    assert isinstance(first.opened().X.array.base, np.memmap)


@pytest.mark.parametrize(("items", "collate", "kind", "message"), [
    ([{"x": 1}] * 3, None, TypeError, r"^items of the dataset of agent 0 must be pairs \(x, y\).*collate="),
    ([(np.zeros(2), 0), (np.zeros(3), 0)], None, ValueError, r"must have one shape, .* \(\(2,\), \(\)\) and of \(\(3,\)"),
    ([(1, 2)] * 3, lambda items: {"x": items}, TypeError, r"^collate must return a pair \(inputs, targets\)"),
    ([(1, 2)] * 3, lambda items: (items, items, items), TypeError, r"^collate must return a pair \(inputs, targets\)"),
    ([(1, 2)] * 3, lambda items: (items, [1.0, 2.0]), ValueError, r"^collate must return targets .* 3 items .* \(2,\)"),
    ([(1, 2)] * 3, lambda items: (items, [1.0, np.inf, 0.0]), ValueError, "^targets that collate returns must be finite"),
    ([(1, 2)] * 3, lambda items: (items, ["a", "b", "c"]), ValueError, "^targets that collate returns must hold real"),
])  # fmt: skip
def test_items_that_do_not_fit_are_refused(items, collate, kind, message):
    shards = LazyShards.from_list([Items(items)], collate)
    with pytest.raises(kind, match=message):
        shards.read(0, np.arange(len(items)))


def test_a_digest_knows_sizes_indices_and_samples_between_the_first_and_the_last():
    same = np.ones((40, 3)), np.ones(40)
    few, more = (LazyShards.from_list([(same[0][:size], same[1][:size])]).digests() for size in (20, 40))
    assert few != more
    some, others = (LazyShards.split(same, [own]).digests() for own in (np.arange(20), np.arange(1, 21)))
    assert some != others
    assert some == LazyShards.split(same, [np.arange(20)]).digests()
    for place in np.linspace(0, 39, 16).astype(int):
        changed = same[0].copy()
        changed[place] = 2.0
        assert LazyShards.from_list([(changed, same[1])]).digests() != more


def test_random_items_are_refused():
    class Augmented(Items):
        def __getitem__(self, number):
            return np.random.default_rng().standard_normal(3), 0.0

    with pytest.raises(ValueError, match=r"^items of the dataset of agent 0 must be the same whenever .* to the module"):
        LazyProblem(consensus.Linear(3), consensus.SquaredLoss(), LazyShards.from_list([Augmented(range(4))]))


def test_datasets_that_cannot_be_sent_are_refused(tmp_path):
    with (tmp_path / "open.txt").open("w") as file:
        held = Items([*zip(X, Y, strict=True)])
        held.file = file
        problem = LazyProblem(consensus.Linear(3), consensus.SquaredLoss(), LazyShards.from_list([(X, Y), held]))
        with pytest.raises(TypeError, match=r"^datasets must be such that pickle .*Items.* is not .*files.*stacked"):
            problem.shared()


LARGE = r"""
import json, re, sys
import numpy as np, consensus, topologies
from consensus.data import LazyShards
from consensus.problems import LazyProblem
from consensus.solvers import GradientTracking

name, rows, features, agents = sys.argv[1], *map(int, sys.argv[2:])
X = np.memmap(name, np.float32, "r", shape=(rows, features))
y = np.arange(rows, dtype=np.float32) % 2
own = np.array_split(np.arange(rows), agents)
shards = LazyShards.from_list([(X[part[0] : part[-1] + 1], y[part]) for part in own], chunk=2048)
problem = LazyProblem(consensus.Linear(features), consensus.LogisticLoss(), shards, consensus.L2(1e-3))
network = topologies.ring(agents)
options = {"rounds": 8, "record_every": 8, "start": np.zeros(features + 1)}
result = consensus.solve(problem, network, GradientTracking(0.5, batch=256), **options)
print(json.dumps({
    "objective": result.history["objective"].tolist(),
    "epochs": result.history["epochs"].tolist(),
    "gigabytes": int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1]) / 2**20,
}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the largest resident memory where Linux has it")
def test_five_gigabytes_are_read_in_two(tmp_path):
    rows, features, agents = 1_250_000, 1024, 5
    name, size = tmp_path / "large", 4 * 1_250_000 * 1024
    with name.open("wb") as file:
        file.truncate(size)
    np.memmap(name, np.uint8, "r")[: 1 << 20].sum()
    if name.stat().st_blocks * 512 >= 1 << 20:  # or a tmpfs, where reading a hole fills it
        pytest.skip("this disk has no sparse files")
    for agent in range(agents):  # the label is a feature of each agent's first samples
        np.memmap(name, np.float32, "r+", shape=(rows, features))[agent * (rows // agents) :][:200, 0] = np.arange(200) % 2
    arguments = [sys.executable, "-c", LARGE, str(name), str(rows), str(features), str(agents)]
    found = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=300).stdout)
    assert found["gigabytes"] < 2
    assert found["objective"][0] == pytest.approx(np.log(2), rel=2e-5)  # of all samples at zero, in float32
    assert found["epochs"][1] == pytest.approx(9 * 256 * agents / rows, rel=1e-12)


test_refusals = refusals(
    (lambda: LazyShards.from_list([Stream()]), TypeError,
     r"^datasets\[0\] must have __len__ and .*Stream.*: an IterableDataset has to be stored"),
    (lambda: LazyShards.from_list([(X, Y), iter([])]), TypeError, r"^datasets\[1\] must have __len__"),
    (lambda: LazyShards.from_list([(X, Y[:3])]), ValueError,
     r"^datasets\[0\] must be a pair \(X, y\) .* shapes \(8, 3\) and \(3,\)"),
    (lambda: LazyShards.from_list([(X, Y), Items([])]), ValueError,
     r"^datasets must have a sample for every agent; datasets\[1\] is empty"),
    (lambda: LazyShards.from_list([]), TypeError, r"^datasets must be a list of datasets, one per agent; got \[\]"),
    (lambda: LazyShards.from_list(3), TypeError, "^datasets must be a list of datasets"),
    (lambda: LazyShards.split((X, Y), [[0], [1, 8]]), ValueError,
     r"^indices\[1\] must be at least one of the samples 0 .. 7; got 1 .. 8"),
    (lambda: LazyShards.split((X, Y), [[0], [-2]]), ValueError,
     r"^indices\[1\] must be at least one of the samples 0 .. 7; got -2 .. -2"),
    (lambda: LazyShards.split((X, Y), [[-1, -1]]), ValueError, r"^indices\[0\] .* got none"),
    (lambda: LazyShards.split((X, Y), [[0.5]]), TypeError, r"^indices\[0\] must be a sequence of whole numbers"),
    (lambda: LazyShards.split((X, Y), []), ValueError, "^indices must have the samples of each agent; got none"),
    (lambda: LazyShards.from_list([(X, Y), Items([(X[0], "no number")] * 2), (X, Y)]).restrict([2, 1]).read(1, np.array([0])),
     (TypeError, ValueError), "agent 1"),
)  # fmt: skip
