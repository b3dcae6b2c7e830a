"""Products with the Jacobian of a module of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from consensus.frameworks.torch_calls import ModuleCalls, loaded

if TYPE_CHECKING:
    from torch import Tensor


def slopes(
    outputs: Sequence[Tensor], cotangents: Sequence[Tensor], leaves: Sequence[Tensor], **settings: bool
) -> Sequence[Tensor]:
    """Return the derivatives in the leaves of the sum of products of outputs and cotangents.

    PyTorch takes both by themselves, too; but then it looks for symbolic shapes in them, which loads 50 MB the first time.
    """
    torch = loaded()
    products = [torch.dot(one.reshape(-1), u.reshape(-1)) for one, u in zip(outputs, cotangents, strict=True)]
    found = torch.autograd.grad(sum(products[1:], products[0]), leaves, materialize_grads=True, **settings)
    return [slope.to_dense() if slope.is_sparse else slope for slope in found]  # as Embedding(sparse=True) has them


class Derivatives:
    """Products with the Jacobian, by PyTorch's tape of one forward pass."""

    def __init__(self, model: ModuleCalls, w: np.ndarray, x: np.ndarray) -> None:
        self._model, self._x = model, x
        self._leaves = [leaf.detach().requires_grad_() for leaf in model._leaves(w)]
        self.outputs = model._outputs(self._leaves, model._stack(x))
        if not self.outputs.requires_grad:
            raise TypeError("its outputs have no gradient: leave out detach(), item(), numpy() and no_grad() on their way")
        self._transposed: tuple[Tensor, Sequence[Tensor]] | None = None

    def vjp(self, u: np.ndarray) -> np.ndarray:
        return self._flat(self._back(self._model._stack(u).reshape(self.outputs.shape)))

    def jvp(self, v: np.ndarray) -> np.ndarray:
        """Return J v by the tape of the backward pass: J' u is linear in u, and its derivative in u towards v is J v."""
        torch = loaded()
        if self._transposed is None:
            u = torch.zeros_like(self.outputs, requires_grad=True)
            self._transposed = u, self._back(u, create_graph=True)
        u, products = self._transposed
        (moved,) = slopes(products, self._model._leaves(v), [u], retain_graph=True)
        return self._model._array(moved, self._x)

    def _back(self, u: Tensor, create_graph: bool = False) -> Sequence[Tensor]:
        return slopes([self.outputs], [u], self._leaves, retain_graph=True, create_graph=create_graph)

    def _flat(self, parts: Sequence[Tensor]) -> np.ndarray:
        return np.asarray(loaded().cat([part.reshape(len(self._x), -1) for part in parts], dim=1).cpu().numpy())
