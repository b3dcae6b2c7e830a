"""Products with the Jacobian of a module of PyTorch."""


class Derivatives:
    """Products with the Jacobian, by PyTorch's tape of one forward pass."""

    def __init__(self, torch, model, w, x):
        self._torch, self._model, self._x = torch, model, x
        self._leaves = [leaf.detach().requires_grad_() for leaf in model._leaves(w)]
        self.outputs = model._outputs(self._leaves, model._stack(x, w.itemsize))
        if not self.outputs.requires_grad:
            raise TypeError("its outputs have no gradient: leave out detach(), item(), numpy() and no_grad() on their way")
        self._transposed = None

    def vjp(self, u):
        return self._flat(self._back(self._model._stack(u).reshape(self.outputs.shape)))

    def jvp(self, v):
        """By the tape of the backward pass: J' u is linear in u, and its derivative in u towards v is J v."""
        torch = self._torch
        if self._transposed is None:
            u = torch.zeros_like(self.outputs, requires_grad=True)
            self._transposed = u, self._back(u, create_graph=True)
        u, products = self._transposed
        (moved,) = torch.autograd.grad(products, u, self._model._leaves(v), retain_graph=True, materialize_grads=True)
        return self._model._array(moved, self._x)

    def _back(self, u, create_graph=False):
        grad = self._torch.autograd.grad
        return grad(self.outputs, self._leaves, u, retain_graph=True, create_graph=create_graph, materialize_grads=True)

    def _flat(self, parts):
        return self._torch.cat([part.reshape(len(self._x), -1) for part in parts], dim=1).cpu().numpy()
