"""Training and evaluation mode, precisions and kinds of modules, against loops and calls that are written in PyTorch."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.models import Torch
from consensus.solvers import DGD, GradientTracking, TreeLBFGS
from tests.helpers.turns import with_slow

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((18, 4)), RNG.standard_normal((18, 2))
LOW = torch.bfloat16, torch.float16


class Own(nn.Module):
    """A Linear layer, other parts, and a forward pass that a test gives."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.head, self.given = nn.Linear(4, 2), forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.given(self, x)


class Frozen(nn.Module):
    """Fine-tuning whose ``train`` leaves a part in evaluation mode, and a scale that training alone has."""

    def __init__(self):
        super().__init__()
        self.body, self.head, self.scale = nn.Dropout(0.5), nn.Linear(4, 2), nn.Parameter(torch.ones(()))

    def train(self, mode=True):
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x)) * (3 * self.scale if self.training else self.scale)


class Gradient(nn.Module):
    """The derivative of a network in its input, by ``autograd.grad`` in the forward pass, as physics-informed networks have."""

    def __init__(self, enabled):
        super().__init__()
        self.net, self.enabled = nn.Linear(4, 1), enabled

    def forward(self, x):
        with torch.set_grad_enabled(self.enabled or torch.is_grad_enabled()):
            x = x.detach().requires_grad_()
            return torch.autograd.grad(torch.tanh(self.net(x)).sum(), x, create_graph=True)[0][:, :2]


def recurrent():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.head = nn.LSTM(2, 3, 2, dropout=0.3, batch_first=True), nn.Linear(3, 2)

        def forward(self, x):
            return self.head(self.inner(x.view(-1, 2, 2))[0][:, -1])

    return Recurrent()


def pruned():
    import torch.nn.utils.prune as prune

    layer = nn.Linear(4, 3)
    prune.l1_unstructured(layer, "weight", 0.5)
    return nn.Sequential(layer, nn.Tanh(), nn.Linear(3, 2))


def tied():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(4, 2))


def low_rank():
    """A frozen base in bfloat16, and trained additions in the run's precision."""
    base = nn.Linear(4, 4).bfloat16().requires_grad_(False)
    return Own(lambda self, x: self.head(torch.tanh(self.base(x.bfloat16()).to(x.dtype)) + x), base=base)


def quantised():
    base = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)).eval(), {nn.Linear}, dtype=torch.qint8)
    return nn.Sequential(base, nn.Linear(4, 2))


MODULES = {  # name: (make, whether training differs)
    "branch": (lambda: Own(lambda self, x: self.head(x) + (7.0 if self.training else 0.0)), True),
    "batch statistics in training": (lambda: Own(lambda self, x: self.head(x - x.mean(0) if self.training else x)), True),
    "a branch that few samples take": (
        lambda: Own(lambda self, x: self.head(x).clamp(*(-2e3, 2e3)[: 2 * self.training] or (-1e4,))), False),
    "functional dropout": (lambda: Own(lambda self, x: F.dropout(self.head(x), 0.4, self.training)), True),
    "train is overridden": (Frozen, True),
    "RReLU": (lambda: nn.Sequential(nn.Linear(4, 2), nn.RReLU()), True),
    "dropout in an LSTM": (recurrent, True),
    "no_grad": (lambda: Own(lambda self, x: self.head(frozen_pass(self, x)), body=nn.Linear(4, 4)), False),
    "keeps the last output": (lambda: Own(lambda self, x: setattr(self, "last", self.head(x)) or self.last), False),
    "shared": (tied, False),
    "weight_norm by a hook": (lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 3)), nn.Linear(3, 2)), False),
    "weight_norm by parametrization": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)), False),
    "spectral_norm in evaluation": (lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 3)), nn.Linear(3, 2)).eval(),
     False),
    "orthogonal": (lambda: nn.utils.parametrizations.orthogonal(nn.Linear(4, 2)), False),
    "pruned": (pruned, False),
    "complex buffer": (lambda: Own(lambda self, x: self.head((x * self.turn).imag), turn=nn.Buffer(1j * torch.ones(4))), False),
    "sparse gradients": (
        lambda: Own(lambda self, x: self.head(self.table((x[:, 0] > 0).long())), table=nn.Embedding(2, 4, sparse=True)), False),
    "derivatives inside": (lambda: Gradient(True), False),
    "derivatives inside, unless switched off": (lambda: Gradient(False), False),
    "bfloat16": (lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).bfloat16(), False),
    "float16": (lambda: nn.Linear(4, 2).half(), False),
    "a frozen part in bfloat16": (low_rank, False),
    "a quantised part": (quantised, False),
}  # fmt: skip


def frozen_pass(self, x):
    with torch.no_grad():
        return self.body(x)


def flat(tensors):
    return torch.cat([tensor.detach().to_dense().float().ravel() for tensor in tensors]).numpy()


def called(net, x):
    """The outputs of a module as its user calls it, in the run's precision."""
    first = next(part for part in net.parameters() if part.requires_grad)
    return net(x.to(first.dtype) if first.dtype in LOW else x).to(x.dtype)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:.*torch.ao.quantization")
@pytest.mark.parametrize("name", with_slow(MODULES, *list(MODULES)[9:19:2]))
def test_runs_are_loops_in_pytorch_and_objectives_those_of_evaluation_mode(name):
    make, differs = MODULES[name]
    torch.manual_seed(1)
    model, x, y = Torch(make()), X.astype(np.float32), Y.astype(np.float32)
    p = consensus.Problem(model, consensus.SquaredLoss(), consensus.partition(x, y, agents=2, scheme="sizes", sizes=[8, 10]))
    model, start = p.model, p.model.init(np.random.default_rng(0))
    assert (model.differs, start.dtype) == (differs, np.float32)
    network, rule = topologies.complete(2), consensus.Minibatches(4)
    run = consensus.solve(p, network, DGD(0.05, batch=rule), rounds=3, start=start, test=(x, y))
    w = np.tile(start, (2, 1))
    for n in range(3):
        batch, gradients = rule.at(p, n), np.empty_like(w)
        for agent in range(2):
            net = make()
            net.load_state_dict(model.state_dict(w[agent]))
            places = batch.indices[agent][batch.weights[agent] > 0]
            given, wanted = (torch.from_numpy(array[agent, places]) for array in (p.shards.features, p.shards.targets))
            torch.manual_seed(model.draw_seed(agent, n))
            ((called(net, given) - wanted).square().sum(1) / 2).mean().mul(2 * p.shards.sizes[agent] / 18).backward()
            trained = [part for part in net.parameters() if part.requires_grad]
            gradients[agent] = flat([torch.zeros_like(part) if part.grad is None else part.grad for part in trained])
        w = np.full((2, 2), 0.5, np.float32) @ w - 0.05 * gradients
    np.testing.assert_allclose(run.w, w, atol=3e-6)
    net = make()
    net.load_state_dict(model.state_dict(run.mean))
    with torch.enable_grad() if name.startswith("derivatives") else torch.no_grad():
        outputs = called(net.eval(), torch.from_numpy(x)).detach().numpy()
    tolerance = {"rtol": 2e-2 if model._rough else 2e-6}  # in few digits products depend on the number of samples
    np.testing.assert_allclose(model.predict(run.mean, x), outputs, atol=tolerance["rtol"], **tolerance)
    errors = np.square(outputs - y).sum(1).mean()
    np.testing.assert_allclose(run.history["test_error"][-1], errors, **tolerance)
    np.testing.assert_allclose(run.history["objective"][-1], errors / 2, **tolerance)


def test_modes_that_differ_are_said_to_solvers_that_need_one_function():
    def problem(module):
        return consensus.Problem(Torch(module), consensus.SquaredLoss(), consensus.partition(X, Y, agents=3))

    branch = MODULES["branch"][0]
    with pytest.raises(
        ValueError, match=r"is another function in training: take a solver of gradients .* module.eval\(\) first"
    ):
        consensus.solve(problem(branch()), topologies.complete(3), TreeLBFGS(), rounds=1)
    with pytest.warns(UserWarning, match="gradients of all samples are in evaluation mode"):
        consensus.solve(problem(branch()), topologies.complete(3), DGD(0.1), rounds=1)
    consensus.solve(problem(branch().eval()), topologies.complete(3), TreeLBFGS(), rounds=1)


def test_shards_that_are_read_have_both_modes_too():
    from consensus.data import LazyShards
    from consensus.problems import LazyProblem

    make = MODULES["branch"][0]
    torch.manual_seed(0)
    model, items = Torch(make().double()), [*zip(torch.from_numpy(X), torch.from_numpy(Y), strict=True)]

    def collate(items):
        return tuple(torch.stack([item[k] for item in items]) for k in (0, 1))

    p = LazyProblem(model, consensus.SquaredLoss(), LazyShards.from_list([items[:9], items[9:]], collate))
    whole = consensus.Problem(model, consensus.SquaredLoss(), consensus.Shards.from_list([(X[:9], Y[:9]), (X[9:], Y[9:])]))
    assert p.model.differs
    runs = [consensus.solve(one, topologies.complete(2), DGD(0.1, batch=4), rounds=3) for one in (p, whole)]
    np.testing.assert_allclose(runs[0].w, runs[1].w, rtol=1e-12)
    assert runs[0].history["objective"][-1] == pytest.approx(runs[1].history["objective"][-1], rel=1e-12)
    assert runs[0].history["objective"][0] < 5  # not by 7 off


def counting(self, x):
    self.calls += 1
    return self.head(x)


def annealed(self, x):
    self.calls += self.training
    return self.head(x) * (2.0 if self.calls > 100 else 1.0)


def constant(self, x):
    return self.head(x @ self.turn)


def functional_norm(self, x):
    return self.head(F.embedding((x[:, 0] > 0).long(), self.table, max_norm=9.0))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("make", "message", "mended"), [
    (lambda: Own(counting, calls=0), r"keeps calls from one call to the next", None),
    (lambda: Own(annealed, calls=0), r"keeps calls .*in training mode, which module.eval\(\) leaves", lambda m: m.eval()),
    (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 2)),
     r"changes parametrizations.weight.0._u when it is called: .*, as after module.eval\(\)", lambda module: module.eval()),
    (lambda: Own(lambda self, x: (self.head(x), x) if self.training else self.head(x)),
     r"must return .* a tuple; this is in training mode, which module.eval\(\) leaves", lambda module: module.eval()),
    (lambda: Own(constant, turn=torch.eye(4)),
     r"in float32 it works: give features X.astype\('float32'\), or make its constants buffers, by register_buffer$",
     lambda module: Own(constant, turn=nn.Buffer(torch.eye(4)))),
    (lambda: nn.Sequential(
         Own(lambda self, x: self.head(self.table((x > 0).long())[:, 0]), table=nn.Embedding(2, 4, max_norm=1.0))
     ), r"because of max_norm=1: set module.get_submodule\('0.table'\).max_norm = None, or shorten",
     lambda module: setattr(module.get_submodule("0.table"), "max_norm", None) or module),
    (lambda: Own(functional_norm, table=nn.Parameter(torch.ones(2, 4))), "writes over large parameters, as max_norm=", None),
    (lambda: Own(lambda self, x: self.head((x * self.turn).imag), turn=nn.Parameter(1j * torch.ones(4))),
     r"turn must be real, .* it is torch.complex64: keep torch.view_as_real\(turn\) as the parameter",
     lambda module: Own(
         lambda self, x: self.head((x * torch.view_as_complex(self.turn)).imag),
         turn=nn.Parameter(torch.view_as_real(1j * torch.ones(4))),
     )),
    (lambda: torch.jit.script(nn.Linear(4, 2)), "give the module that torch.jit was given", lambda _: nn.Linear(4, 2)),
    (lambda: torch.compile(nn.Linear(4, 2)), "an? OptimizedModule, .*: give module._orig_mod$",
     lambda module: module._orig_mod),
    (lambda: nn.DataParallel(nn.Linear(4, 2)), "a DataParallel, .*: give module.module$", lambda module: module.module),
    (lambda: nn.Sequential(nn.DataParallel(nn.Linear(4, 2))),
     r": module.set_submodule\('0', module.get_submodule\('0'\).module\)$",
     lambda module: module.set_submodule("0", module.get_submodule("0").module) or module),
    (lambda: nn.Linear(4, 2).requires_grad_(False), r"require a gradient; .*: module.requires_grad_\(\) first",
     nn.Module.requires_grad_),
    (lambda: Own(lambda self, x: self.head(x), lock=__import__("threading").Lock()), "without locks, files and generators",
     None),
])  # fmt: skip
def test_what_cannot_be_taken_is_refused_with_the_shards_and_the_remedy_works(make, message, mended):
    shards, module = consensus.partition(X, Y, agents=2), make()
    with pytest.raises(ValueError, match=message):
        consensus.Problem(Torch(module), consensus.SquaredLoss(), shards)
    if mended is not None:
        p = consensus.Problem(Torch(mended(module)), consensus.SquaredLoss(), shards)
        consensus.solve(p, topologies.complete(2), GradientTracking(0.01), rounds=1)


def test_constants_in_single_precision_run_in_it_as_the_message_says():
    module, x = Own(constant, turn=torch.eye(4)), X.astype("float32")
    p = consensus.Problem(Torch(module), consensus.SquaredLoss(), consensus.partition(x, Y, agents=2))
    w = p.model.init(np.random.default_rng(0))
    np.testing.assert_allclose(p.model.predict(w, x), module(torch.from_numpy(x)).detach().numpy(), rtol=1e-6)
