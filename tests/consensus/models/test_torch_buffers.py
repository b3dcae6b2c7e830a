"""Modules of PyTorch with batch normalisation."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.models import Torch
from consensus.solvers import DGD, GradientTracking, QGDSGDm
from tests.helpers import frameworks
from tests.helpers.ranks_on_threads import assert_bits_of_one_process
from tests.helpers.turns import in_turn

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
nn = torch.nn
RING = topologies.ring(4)
MIXING = topologies.Static(RING).weights(0).toarray()
X = np.random.default_rng(0).standard_normal((41, 1, 6, 6)) + 0.3
Y = np.arange(41) % 3
SIZES = [6, 15, 9, 11]  # batches of 3 leave two or none
TEST = X[:20] + 0.5, Y[:20]


def cnn():
    head = nn.Linear(48, 8, bias=False), nn.BatchNorm1d(8, momentum=None), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout2d(0.3), nn.Flatten(), *head)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))


class Twice(nn.Module):
    """One layer without parameters, called twice under two names, and one that is never called."""

    def __init__(self):
        super().__init__()
        self.first = self.second = nn.BatchNorm1d(36, affine=False)
        self.head, self.unused = nn.Linear(36, 3), nn.BatchNorm1d(2)

    def forward(self, x):
        return self.head(self.second(self.first(x.flatten(1)).square()))


def problem(module=cnn, dtype=np.float64, **settings):
    shards = consensus.partition(X.astype(dtype), Y, agents=4, scheme="sizes", sizes=SIZES)
    return consensus.Problem(Torch(module, **settings), consensus.CrossEntropy(), shards, consensus.L2(1e-3))


def points(p, seed=0):
    start = p.model.init(np.random.default_rng(0)).astype(p.dtype)
    return start + 0.1 * np.random.default_rng(seed).standard_normal((4, len(start))).astype(p.dtype)


def data(p, agent, places=slice(None)):
    own = np.arange(SIZES[agent])[places]
    return torch.tensor(p.shards.features[agent, own]), torch.tensor(p.shards.targets[agent, own, 0]).long()


def load(net, w):
    with torch.no_grad():
        nn.utils.vector_to_parameters(torch.tensor(w), net.parameters())


def normalising(net):
    """In evaluation mode but for batch normalisation, whose running buffers are those of the last call."""
    net.eval()
    for part in net.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.train().momentum = 1.0
    return net


def by_hand(p, modules, rule):
    """Gradients of the average form by a module for each agent in training mode; dropout is off without a batch."""

    def gradients(w, n):
        found = np.empty_like(w)
        for agent, net in enumerate(modules):
            load(net, w[agent])
            net.zero_grad()
            x, labels = data(p, agent)
            if rule:
                batch = rule.at(p, n)
                x, labels = data(p, agent, batch.indices[agent][batch.weights[agent] > 0])
                torch.manual_seed(p.model.draw_seed(agent, n))
            loss = nn.functional.cross_entropy(net(x), labels)
            (4 * SIZES[agent] / 41 * loss).backward()
            found[agent] = torch.cat([part.grad.ravel() for part in net.parameters()]).numpy() + 1e-3 * w[agent]
        return found

    return gradients


def descent(w, gradients, alpha, rounds):
    for n in range(rounds):
        w = MIXING @ w - alpha * gradients(w, n)
    return w


def tracking(w, gradients, alpha, rounds):
    y = g = gradients(w, 0)
    for n in range(rounds):
        w = MIXING @ (w - alpha * y)
        g, old = gradients(w, n + 1), g
        y = MIXING @ (y + g - old)
    return w


def momentum(w, gradients, alpha, rounds):
    m = np.zeros_like(w)
    for n in range(rounds):
        new = MIXING @ (w - alpha * (0.9 * m + gradients(w, n)))
        w, m = new, 0.9 * m + 0.1 / alpha * (w - new)
    return w


@pytest.mark.parametrize("module", [cnn, mlp])
@pytest.mark.parametrize(("solver", "loop"), [(DGD, descent), (GradientTracking, tracking), (QGDSGDm, momentum)])
@pytest.mark.parametrize("batch", [3, None])
@pytest.mark.filterwarnings("ignore:.* has no batch, and gradients of all samples")
def test_iterates_are_those_of_a_loop_of_modules_in_training_mode(module, solver, loop, batch):
    p, rounds, alpha = problem(module), 6, 0.1
    nets = [module().double() if batch else normalising(module().double()) for _ in range(4)]
    start, generator = points(p), torch.get_rng_state()
    found = consensus.solve(p, RING, solver(alpha, batch=batch), rounds=rounds, start=start, record_every=3)
    assert torch.equal(torch.get_rng_state(), generator)
    gradients = by_hand(p, nets, consensus.Minibatches(batch) if batch else None)
    np.testing.assert_allclose(found.w, loop(start, gradients, alpha, rounds), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("module", [cnn, mlp, Twice])
def test_an_agents_buffers_are_those_of_pytorch_after_a_batch_of_all_samples(module, dtype):
    p, tolerance = problem(module, dtype, buffers="keep"), 1e-12 if dtype == np.float64 else 1e-5
    w, values = points(p), []
    own = p.buffers(w)
    for agent in range(4):
        x, labels = data(p, agent)
        net = normalising(module().to(x.dtype))
        load(net, w[agent])
        net(x)
        state = p.model.state_dict(w[agent], own[agent])
        assert state.keys() == net.state_dict().keys()
        for name, value in net.state_dict().items():
            if "running" not in name or (module is Twice and not name.startswith("unused")):
                continue
            count = len(x) * (16 if module is cnn and name.startswith("1.") else 1)
            unbiased = count / (count - 1) if name.endswith("var") and not name.startswith("unused") else 1
            np.testing.assert_allclose(unbiased * state[name], value, rtol=tolerance, atol=tolerance)
        net = module().to(x.dtype)
        net.load_state_dict(state)
        with torch.no_grad():
            values.append(SIZES[agent] / 41 * float(nn.functional.cross_entropy(net.eval()(x), labels)))
    if module is Twice:  # in training its two calls have statistics of their own, in evaluation they share them
        x = p.shards.features[0, : SIZES[0]].reshape(6, 36)
        once = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
        both = np.concatenate([x, once**2])
        np.testing.assert_allclose(state["first.running_mean"], state["second.running_mean"])
        np.testing.assert_allclose(own[0, :36], both.mean(0), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(own[0, 38:74], both.var(0), rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_allclose(p.value(w), values, rtol=tolerance)
    np.testing.assert_allclose(p.restrict(slice(1, 3)).buffers(w[1:3]), own[1:3], rtol=0, atol=0)


@pytest.mark.parametrize("module", [cnn, mlp])
def test_gradients_of_all_samples_are_those_of_the_costs(module):
    p, h = problem(module), 1e-6
    w, v = points(p), points(p, seed=1)
    slopes = (p.value(w + h * v) - p.value(w - h * v)) / (2 * h)
    np.testing.assert_allclose((p.gradient(w) * v).sum(axis=1), slopes, rtol=1e-7)
    model, x = p.model.normalised(), p.shards.features[1:2]
    np.testing.assert_allclose(model.jacobian(w[:1], x) @ v[0], model.jvp(w[:1], x, v[:1]).reshape(1, -1), atol=1e-12)


@pytest.mark.parametrize(("module", "dtype"), in_turn([cnn, mlp], [np.float64, np.float32]))
def test_metrics_are_those_of_the_users_module_in_evaluation_mode(module, dtype):
    """With averaged buffers, of one module; with kept ones, of one module for each agent."""
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    settings = {"rounds": 5, "record_every": 5, "test": TEST}

    def measured(p, w, buffers, x, labels):
        net = module().to(torch.tensor(w).dtype)
        net.load_state_dict(p.model.state_dict(w, buffers))
        with torch.no_grad():
            outputs = net.eval()(torch.as_tensor(np.asarray(x, dtype)))
        np.testing.assert_allclose(
            p.model.evaluated(buffers).predict(w, np.asarray(x)), outputs, rtol=tolerance, atol=tolerance
        )
        losses = nn.functional.cross_entropy(outputs, torch.as_tensor(labels).long(), reduction="none")
        return float(losses.sum()), float((outputs.argmax(1) != torch.as_tensor(labels)).double().mean())

    p = problem(module, dtype)
    average = consensus.solve(p, RING, DGD(0.1, batch=3), start=points(p), agent_objectives=True, **settings)
    mean, last = average.mean, average.history.last()
    buffers, own = p.buffers(mean), p.buffers(np.tile(mean, (4, 1)))
    means, variances = np.split(own.astype(float), 2, axis=1)
    shares = np.array(SIZES) / 41
    np.testing.assert_allclose(buffers, [*(shares @ means), *(shares @ (variances + (means - shares @ means) ** 2))], rtol=1e-6)
    penalty = lambda w: 0.5e-3 * float(w @ w)  # noqa: E731
    loss, _ = measured(p, mean, buffers, X, Y)
    np.testing.assert_allclose(last["objective"], loss / 41 + penalty(mean), rtol=tolerance)
    np.testing.assert_allclose(p.objective(mean), last["objective"], rtol=tolerance)
    own_losses = [measured(p, w, p.buffers(w), X, Y)[0] / 41 + penalty(w) for w in average.w]
    np.testing.assert_allclose(last["agent_objective"], own_losses, rtol=tolerance)
    assert last["test_error"] == pytest.approx(measured(p, mean, buffers, *TEST)[1])
    assert last["test_error_worst"] == pytest.approx(max(measured(p, w, buffers, *TEST)[1] for w in average.w))

    on = consensus.Minibatches(5)
    some = consensus.solve(p, RING, DGD(0.1, batch=3), start=points(p), metrics_on=on, **settings).history["objective"][-1]
    means, variances = np.split(p.sampled(on.at(p, 0)).buffers(np.tile(mean, (4, 1))).astype(float), 2, axis=1)
    few = np.array([*(shares @ means), *(shares @ (variances + (means - shares @ means) ** 2))], dtype)
    losses = [measured(p, mean, few, *data(p, agent, own))[0] / 5 for agent, own in enumerate(on.at(p, 0).indices)]
    np.testing.assert_allclose(some, shares @ losses + penalty(mean), rtol=10 * tolerance)

    p = problem(module, dtype, buffers="keep")
    kept = consensus.solve(p, RING, DGD(0.1, batch=3), start=points(p), **settings)
    np.testing.assert_array_equal(kept.w, average.w)
    losses = [measured(p, mean, own[agent], *data(p, agent))[0] for agent in range(4)]
    np.testing.assert_allclose(kept.history["objective"][-1], sum(losses) / 41 + penalty(mean), rtol=tolerance)
    errors = [measured(p, mean, each, *TEST)[1] for each in own]
    assert kept.history["test_error"][-1] == pytest.approx(np.mean(errors))
    errors = [measured(p, w, each, *TEST)[1] for w, each in zip(kept.w, p.buffers(kept.w), strict=True)]
    assert kept.history["test_error_worst"][-1] == pytest.approx(max(errors))
    for name in ("messages", "floats", "bytes"):
        rows, points_of_a_row = np.arange(1, 3), 5  # the mean and each agent's own
        size = {"messages": 1, "floats": len(buffers), "bytes": buffers.nbytes}[name]
        np.testing.assert_array_equal(average.history[name] - kept.history[name], 6 * size * rows * points_of_a_row)


@pytest.mark.parametrize("workers", [(), (1, 2, 3)])
@pytest.mark.parametrize("buffers", ["average", "keep"])
def test_the_same_on_every_engine_and_after_a_checkpoint(buffers, workers, tmp_path):
    p, solver, path = problem(dtype=np.float32, buffers=buffers), GradientTracking(0.1, batch=3), tmp_path / "run.npz"
    settings = {"rounds": 6, "record_every": 2, "test": TEST}
    whole = consensus.solve(p, RING, solver, **settings)
    consensus.solve(p, RING, solver, **settings | {"rounds": 4}, checkpoint=path, every=4)
    others = [consensus.solve(p, RING, solver, **settings, engine=Processes(count)) for count in workers]
    for other in (*others, consensus.solve(p, RING, solver, **settings, resume=path)):
        frameworks.assert_close(other.w, whole.w)
        for name in set(whole.history) - {"seconds"}:
            frameworks.assert_close(other.history[name], whole.history[name], name, whole.w.dtype)
    other = problem(dtype=np.float32, buffers={"keep": "average", "average": "keep"}[buffers])
    with pytest.raises(ValueError, match="is a checkpoint of another run: model"):
        consensus.solve(other, RING, solver, **settings, resume=path)
    assert_bits_of_one_process(problem(dtype=np.float32, buffers="keep"), topologies.Static(RING), solver, 2)
