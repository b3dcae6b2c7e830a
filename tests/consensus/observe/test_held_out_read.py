"""Test sets that are read as they are needed, against PyTorch and those in memory."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.data import LazyShards
from consensus.problems import LazyProblem
from consensus.solvers import DGD

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
