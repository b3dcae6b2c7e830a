"""Networks spread over MPI ranks: the serial numbers, what ranks send, and the memory that they take."""

import json

import numpy as np
import pytest

from consensus.model_parallel.costs import Sent, maps_of, maps_of_transformer
from tests.helpers import tensor_ranks
from tests.helpers.engine_harness import HERE, MPIEXEC, mpiexec
from tests.helpers.transformers import by_hand, by_torch

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not MPIEXEC.exists(), reason="needs mpiexec")]
MODEL, SAMPLES = tensor_ranks.SIZES["perceptron"], tensor_ranks.SAMPLES
GRIDS = [("1d", 3), ("2d", 4), ("3d", 8)]


def sent(maps):
    """Return the numbers that a rank sends on the ways forward and backward, by the formulas."""
    return [sum(way, Sent()).numbers for way in zip(*((m.forward(), m.backward()) for m in maps), strict=True)]


@pytest.mark.parametrize(("split", "ranks"), GRIDS)
def test_ranks_find_the_serial_gradient_with_a_share_of_the_memory(split, ranks, tmp_path):
    done = mpiexec(ranks, HERE / "tensor_ranks.py", "perceptron", split, tmp_path)
    assert done.returncode == 0, done.stderr
    w, x, u = tensor_ranks.given("perceptron")
    with np.load(tmp_path / "found.npz") as found:
        np.testing.assert_allclose(found["outputs"], MODEL.predict(w, x), rtol=0, atol=1e-12)
        np.testing.assert_allclose(found["gradient"], MODEL.vjp(w[None], x[None], u[None])[0], rtol=0, atol=1e-12)
    formulas = sent(maps_of(MODEL.widths, split, ranks, SAMPLES))
    for rank in json.loads(done.stdout):
        assert rank["sent"] == formulas
        # What the process has allocated is what the rank says that it has, but for objects of a few hundred bytes.
        assert rank["memory"] == pytest.approx(rank["held"], abs=8000)
        parameters, activations = rank["held"]
        assert parameters == 8 * MODEL.parameters / ranks
        if split != "1d":
            assert activations == 8 * SAMPLES * sum(MODEL.widths[:3]) / ranks


@pytest.mark.parametrize(("split", "ranks"), GRIDS)
def test_ranks_find_pytorchs_gradient_of_a_transformer_block(split, ranks, tmp_path):
    done = mpiexec(ranks, HERE / "tensor_ranks.py", "transformer", split, tmp_path)
    assert done.returncode == 0, done.stderr
    sizes = tensor_ranks.SIZES["transformer"]
    w, x, u = tensor_ranks.given("transformer")
    with np.load(tmp_path / "found.npz") as found:
        np.testing.assert_allclose(found["outputs"], by_hand(sizes, w, x, np.tanh), rtol=0, atol=1e-12)
        _, gradient, _ = by_torch(pytest.importorskip("torch"), sizes._replace(activation="tanh"), w, x, u)
        np.testing.assert_allclose(found["gradient"], gradient, rtol=0, atol=1e-12)
    formulas = sent(maps_of_transformer(sizes, split, ranks, SAMPLES))
    for rank in json.loads(done.stdout):
        assert rank["sent"] == formulas
        assert rank["memory"] == pytest.approx(rank["held"], abs=8000)
