"""How many agents a call may have without changing their bits."""

import frameworks
import numpy as np
import pytest

from consensus.frameworks.together import most_together

SHAPES = (3,), 4, np.dtype(np.float32)


def products(change):
    """Sums that begin to differ in their last bits as ``change(agents, agent)`` says."""

    def found(w, x, u, v):
        changed = [change(len(w), agent) for agent in range(len(w))]
        return w, np.nextafter(u.sum(axis=(1, 2)), np.float32(np.inf), where=changed, out=u.sum(axis=(1, 2)))

    return found


@pytest.mark.parametrize(
    ("change", "most"),
    [
        (lambda agents, agent: False, 5),
        (lambda agents, agent: agents >= 5, 4),
        (lambda agents, agent: agents >= 3, 1),
        (lambda agents, agent: agent > 2, 3),
        (lambda agents, agent: agent > 1, 1),
        (lambda agents, agent: agent / 0, 1),
    ],
    ids=["never", "with five", "with three", "in fourth place", "in third place", "it fails"],
)
def test_calls_end_where_bits_begin_to_change(change, most):
    assert most_together(products(change), 5, 7, SHAPES, 2) == most


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_convolutions_have_the_same_bits_in_every_block(dtype):
    pytest.importorskip("torch")
    model, rng = frameworks.torch_cnn(), np.random.default_rng(0)
    shapes = (model.parameters,), (4, *frameworks.IMAGE), (4, frameworks.CLASSES)
    arrays = [rng.standard_normal((7, *shape)).astype(dtype) for shape in shapes]
    whole = model.vjp(*arrays)
    for rows in (slice(0, 1), slice(1, 3), slice(3, 7)):
        np.testing.assert_array_equal(model.vjp(*(array[rows] for array in arrays)), whole[rows])
    turned = model.vjp(*(array[::-1].copy() for array in arrays))
    np.testing.assert_array_equal(turned[::-1], whole)
