"""How many agents a call of a PyTorch module has, which changes results by rounding alone."""

import sys

import numpy as np
import pytest

from consensus.models import Torch
from tests.helpers import frameworks

torch = pytest.importorskip("torch")
nn = torch.nn


class Branch(nn.Module):
    """Has a Linear layer, and looks at the numbers of a sample, which functions of several agents cannot."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(x) if bool((x**2 >= 0).all()) else x[:, :2]


@pytest.mark.parametrize(
    ("make", "shape", "most"),
    [
        (lambda: nn.Linear(3, 2), (3,), sys.maxsize),
        (lambda: nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 2)), (3,), 1),
        (Branch, (3,), 1),
        (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2)), (1, 4, 4), 5),
    ],
    ids=["linear", "other layers", "it fails for several", "convolutions"],
)
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(float)], ids=str)
def test_agents_share_a_call_where_that_is_quicker_and_works(make, shape, most, dtype):
    model = Torch(make()).for_samples(shape, dtype)
    assert model._most(4, dtype) == most
    assert model._most(10**7, dtype) == 1
    w, x = np.ones((3, model.parameters), dtype), np.ones((3, 4, *shape), dtype)
    assert np.isfinite(model.predict(w, x)).all()


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_convolutions_agree_in_every_block(dtype, tolerance):
    model, rng = frameworks.torch_cnn(), np.random.default_rng(0)
    shapes = (model.parameters,), (4, *frameworks.IMAGE), (4, frameworks.CLASSES)
    arrays = [rng.standard_normal((7, *shape)).astype(dtype) for shape in shapes]
    whole = model.vjp(*arrays)
    for rows in (slice(0, 1), slice(1, 3), slice(3, 7), slice(None, None, -1)):
        found = model.vjp(*(array[rows].copy() for array in arrays))
        np.testing.assert_allclose(found, whole[rows], rtol=tolerance, atol=tolerance * np.abs(whole).max())
