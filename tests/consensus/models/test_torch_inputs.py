"""Modules of PyTorch on dictionaries and ragged sequences, against loops in PyTorch, and data from outside of memory."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.data import LazyShards
from consensus.engines import Processes
from consensus.models import Torch
from consensus.problems import LazyProblem
from consensus.solvers import DGD, GradientTracking
from tests.helpers import frameworks

torch = pytest.importorskip("torch")
nn = torch.nn
RING = topologies.ring(4)
SIZES = (5, 16, 9, 11)


class Texts(torch.utils.data.Dataset):
    """Texts of 2 to 9 words, and a label each."""

    def __init__(self, seed, size):
        rng = np.random.default_rng(seed)
        self.texts = [rng.integers(1, 8, length) for length in rng.integers(2, 10, size)]
        self.labels = rng.integers(0, 3, size)

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, number):
        return {"words": torch.as_tensor(self.texts[number]), "label": int(self.labels[number])}


class Columns(Texts):
    """The same, asked for many samples at once, as datasets of Hugging Face are."""

    def __getitem__(self, number):
        raise AssertionError("one by one")

    def __getitems__(self, numbers):
        return [Texts.__getitem__(self, number) for number in numbers]


def padded(items):
    words = nn.utils.rnn.pad_sequence([item["words"] for item in items], batch_first=True)
    return {"input_ids": words, "attention_mask": (words > 0).double()}, torch.tensor([item["label"] for item in items])


def with_lengths(items):
    words = nn.utils.rnn.pad_sequence([item["words"] for item in items], batch_first=True)
    lengths = torch.tensor([len(item["words"]) for item in items])
    return (words, lengths), [item["label"] for item in items]


class Logits:
    def __init__(self, logits):
        self.logits = logits


class Means(nn.Module):
    """The mean of embeddings, called as models of Hugging Face are, and with outputs as theirs."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.embed, self.drop, self.head = nn.Embedding(8, 5), nn.Dropout(dropout), nn.Linear(5, 3)

    def forward(self, input_ids, attention_mask):
        assert input_ids.dtype == torch.int64
        mask = attention_mask[:, :, None]
        return Logits(self.head(self.drop(torch.tanh((mask * self.embed(input_ids)).sum(1) / mask.sum(1)))))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.inner, self.head = nn.Embedding(8, 4), nn.GRU(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, inputs):
        words, lengths = inputs
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(words), lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.inner(packed)[1][0])


def made(module, *arguments):
    torch.manual_seed(0)
    return module(*arguments).double()


def datasets(kind=Texts):
    return [kind(agent, size) for agent, size in enumerate(SIZES)]


def problem(module, collate, kind=Texts, chunk=6):
    shards = LazyShards.from_list(datasets(kind), collate, chunk=chunk)
    return LazyProblem(Torch(module, seed=3), consensus.CrossEntropy(), shards, consensus.L2(1e-3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "collate", "kind"),
    [(made(Means), padded, Texts), (made(Recurrent), with_lengths, Columns), (made(Means, 0.4), padded, Columns)],
    ids=["dictionaries", "lengths", "dropout"],
)
def test_descent_is_a_loop_in_pytorch(module, collate, kind):
    p, alpha = problem(module, collate, kind), 0.2
    found = consensus.solve(p, RING, DGD(alpha, batch=4), rounds=6)
    own, rule, mixing = datasets(), consensus.Minibatches(4), topologies.Static(RING).weights(0).toarray()
    start = torch.cat([part.detach().ravel() for part in module.parameters()]).numpy()
    w = np.tile(start, (4, 1))

    def cost(w, agent, places):
        inputs, labels = collate([own[agent][int(place)] for place in places])
        net.load_state_dict(p.model.state_dict(w))
        outputs = net(**inputs).logits if isinstance(inputs, dict) else net(inputs)
        return nn.functional.cross_entropy(outputs, torch.as_tensor(labels), reduction="sum") / sum(SIZES)

    net = made(type(module), *([0.4] if p.model.stochastic else []))
    assert p.model.stochastic == (module.__class__ is Means and module.drop.p > 0)
    for n in range(6):
        batch, gradients = rule.at(p, n), np.empty_like(w)
        for agent in range(4):
            real = batch.weights[agent] > 0
            net.zero_grad()
            torch.manual_seed(p.model.draw_seed(agent, n))
            (batch.weights[agent, 0] * cost(w[agent], agent, batch.indices[agent, real])).backward()
            gradients[agent] = 4 * torch.cat([part.grad.ravel() for part in net.parameters()]).numpy() + 1e-3 * w[agent]
        w = mixing @ w - alpha * gradients
    np.testing.assert_allclose(found.w, w, rtol=0, atol=1e-12)
    net.eval()
    with torch.no_grad():
        expected = sum(float(cost(found.mean, agent, range(size))) for agent, size in enumerate(SIZES))
    expected += 0.5e-3 * float(found.mean @ found.mean)
    np.testing.assert_allclose(found.history["objective"][-1], expected, rtol=1e-12)


CASES = [(made(Means, 0.4), padded), (made(Recurrent).float(), with_lengths)]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "collate"), CASES)
def test_the_same_on_workers(module, collate):
    p, solver = problem(module, collate), GradientTracking(0.1, batch=4)
    one, other = (consensus.solve(p, RING, solver, rounds=6, engine=engine).w for engine in ("stacked", Processes(3)))
    frameworks.assert_close(other, one)


@pytest.mark.slow
@pytest.mark.parametrize(("module", "collate"), CASES)
def test_the_same_in_blocks_and_after_a_checkpoint(module, collate, tmp_path):
    p, solver, path = problem(module, collate), GradientTracking(0.1, batch=4), tmp_path / "run.npz"
    whole = consensus.solve(p, RING, solver, rounds=6).w
    assert whole.dtype == next(module.parameters()).detach().numpy().dtype
    consensus.solve(p, RING, solver, rounds=4, checkpoint=path, every=4)
    frameworks.assert_close(consensus.solve(p, RING, solver, rounds=6, resume=path).w, whole)
    for rows in (slice(1, 3), [3, 0]):
        frameworks.assert_close(p.restrict(rows).gradient(whole[rows]), p.gradient(whole)[rows])


def tokens(items):
    """A label for each word, the next one."""
    words = nn.utils.rnn.pad_sequence([item["words"] for item in items], batch_first=True)
    labels = nn.utils.rnn.pad_sequence([item["words"][1:] for item in items], batch_first=True, padding_value=-100)
    return words[:, :-1], labels


def test_a_label_for_each_token_of_ragged_texts():
    module = made(lambda: nn.Sequential(nn.Embedding(8, 5), nn.Tanh(), nn.Linear(5, 8)))
    shards = LazyShards.from_list(datasets(), tokens, chunk=3)
    p = LazyProblem(Torch(module), consensus.CrossEntropy(ignore_index=-100), shards)
    w = p.model.init(np.random.default_rng(0))
    words, labels = tokens([item for dataset in datasets() for item in dataset])
    expected = nn.functional.cross_entropy(module(words).reshape(-1, 8), labels.reshape(-1))  # the mean over all tokens
    expected.backward()
    gradient = torch.cat([part.grad.ravel() for part in module.parameters()]).numpy()
    assert p.objective(w) == pytest.approx(float(expected.detach()), rel=1e-12)
    np.testing.assert_allclose(p.total_gradient(w), gradient, rtol=0, atol=1e-14)


def test_images_have_the_bits_of_those_in_memory():
    X, y = np.random.default_rng(0).standard_normal((41, 1, 6, 6)).astype(np.float32), np.arange(41) % 3
    stored = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(y))

    def network():
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(48, 3))

    shards = consensus.partition(X, y, agents=4, scheme="sizes", sizes=SIZES)
    pieces = LazyShards.split(stored, shards.indices)
    one, other = (
        kind(Torch(network), consensus.CrossEntropy(), data, consensus.L2(1e-3))
        for kind, data in ((consensus.Problem, shards), (LazyProblem, pieces))
    )
    solver = GradientTracking(0.1, batch=4)
    expected, found = (consensus.solve(p, RING, solver, rounds=6) for p in (one, other))
    np.testing.assert_array_equal(found.w, expected.w)
    np.testing.assert_array_equal(found.history["objective"], expected.history["objective"])


class Unmasked(Means):
    def forward(self, input_ids, attention_mask):
        return self.head(self.embed(input_ids).mean(1))


class Restless(Means):
    def forward(self, input_ids, attention_mask):
        return self.head(self.embed(input_ids).sum(1) + torch.rand(()))


class Noisy(Means):
    def forward(self, input_ids, attention_mask):
        if self.training:
            input_ids = torch.where(torch.rand(input_ids.shape) < 0.1 + np.random.rand(), input_ids, 1)  # noqa: NPY002
        return super().forward(input_ids, attention_mask)


class Counting(Means):
    def forward(self, input_ids, attention_mask):
        self.calls = getattr(self, "calls", 0) + 1
        return super().forward(input_ids, attention_mask).logits + self.calls


@pytest.mark.parametrize(("module", "message"), [
    (Unmasked, "a sample's outputs depend on the other samples of a batch, or on its padding"),
    (Noisy, "draws random numbers from NumPy's global generator in training"),
    (Counting, "returns other outputs when it is called again"),
    (Restless, "draws random numbers from PyTorch's generator in evaluation mode"),
    (Recurrent, r"fails on inputs \{'input_ids': \(3, \d\), .*TypeError: .*unexpected keyword argument"),
])  # fmt: skip
def test_modules_that_do_not_fit_are_refused(module, message):
    with pytest.raises(ValueError, match=f"^Torch(Inputs)?\\(.*{message}"):
        problem(made(module), padded)


@pytest.mark.slow
def test_datasets_of_hugging_face():
    hugging_face = pytest.importorskip("datasets")
    columns = [{"words": [text.tolist() for text in own.texts], "label": own.labels.tolist()} for own in datasets()]
    stored = [hugging_face.Dataset.from_dict(own).with_format("torch") for own in columns]
    shards = LazyShards.from_list(stored, padded)
    found = LazyProblem(Torch(made(Means)), consensus.CrossEntropy(), shards, consensus.L2(1e-3))
    expected = consensus.solve(problem(made(Means), padded), RING, DGD(0.1, batch=4), rounds=5).w
    for engine in ("stacked", Processes(2)):
        np.testing.assert_array_equal(consensus.solve(found, RING, DGD(0.1, batch=4), rounds=5, engine=engine).w, expected)


class Augmented(torch.utils.data.Dataset):
    """Samples, some of which are turned round when they are read, by a generator of PyTorch or of the dataset's own."""

    def __init__(self, chance, own=False, seeded=False):
        self.x, self.chance, self.seeded = torch.arange(60.0).view(20, 3), chance, seeded
        self.drawn = np.random.default_rng(0).random if own else lambda: float(torch.rand(()))

    def __len__(self):
        return 20

    def __getitem__(self, number):
        if self.seeded:
            torch.manual_seed(number)
        return (self.x[number].flip(0) if self.drawn() < self.chance else self.x[number]), number % 2


@pytest.mark.parametrize(("chance", "own"), [(0.1, False), (0.1, True), (0.02, False), (0.9, True)])
def test_augmentation_by_chance_is_noticed(chance, own):
    before = torch.get_rng_state()
    for seed in range(10):
        torch.manual_seed(seed)
        shards = LazyShards.from_list([Augmented(chance, own), Augmented(chance, own)])
        with pytest.raises(ValueError, match=r"items of the dataset of agent \d must be the same whenever they are read"):
            LazyProblem(Torch(nn.Linear(3, 2)), consensus.CrossEntropy(), shards)
    torch.set_rng_state(before)


@pytest.mark.slow
def test_items_that_are_drawn_under_their_own_seed_are_the_same_whenever_they_are_read():
    with torch.random.fork_rng(devices=[]):
        shards = LazyShards.from_list([Augmented(0.5, seeded=True), Augmented(0.5, seeded=True)])
        assert LazyProblem(Torch(nn.Linear(3, 2)), consensus.CrossEntropy(), shards).agents == 2
