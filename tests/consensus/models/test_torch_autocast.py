"""Modules that compute in bfloat16 with parameters in single precision."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.directions import AdamW
from consensus.engines import Processes
from consensus.solvers import DGD

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

AGENTS, BATCH = 3, 5


class Half(nn.Module):
    """A convolution and two layers, in bfloat16."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(1, 4, 3), nn.SiLU(), nn.Flatten(), nn.Linear(144, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.inner(x).float()


def problem():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 1, 8, 8)).astype(np.float32), rng.integers(0, 3, 30)
    torch.manual_seed(0)
    model, shards = consensus.models.Torch(Half()), consensus.partition(X, y, agents=AGENTS)
    return consensus.Problem(model, consensus.CrossEntropy(), shards)


def test_gradients_are_those_of_the_module_to_half_precision():
    p = problem()
    w, batch = p.model.init(np.random.default_rng(0)), consensus.Minibatches(BATCH).at(p, 0)
    found = p.shards.samples * p.gradient(np.tile(w, (AGENTS, 1)), batch) / p.shards.sizes[:, None]
    for agent in range(AGENTS):
        x, d = (torch.tensor(part[agent][batch.indices[agent]]) for part in (p.shards.features, p.shards.targets))
        module = Half()
        module.load_state_dict(p.model.state_dict(w))
        own = []
        for run in (module, module.inner):
            module.zero_grad()
            nn.functional.cross_entropy(run(x), d[:, 0].long()).backward()
            own.append(np.concatenate([part.grad.numpy().ravel() for part in module.parameters()]))
        half, single = own
        apart = [np.linalg.norm(found[agent] - one) / np.linalg.norm(half) for one in own]
        assert apart[0] < 2**-7
        assert np.linalg.norm(half - single) > 1e-5 * np.linalg.norm(single)  # it is in half precision that they agree


@pytest.mark.slow
def test_runs_learn_with_equal_bits_on_workers():
    p, ring = problem(), topologies.ring(AGENTS)
    solver, options = DGD(0.01, batch=BATCH, direction=AdamW()), {"rounds": 30, "record_every": 30}
    result = consensus.solve(p, ring, solver, **options)
    assert result.w.dtype == np.float32
    assert result.history["objective"][-1] < 0.5 * result.history["objective"][0]
    workers = consensus.solve(p, ring, solver, engine=Processes(2), **options)
    np.testing.assert_array_equal(workers.w, result.w)
