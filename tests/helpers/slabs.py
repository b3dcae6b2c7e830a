"""What tests of layer-parallel passes share: a network with its data, and the error that residuals allow a gradient."""

from typing import NamedTuple

import numpy as np

from consensus.models import ResNet

BEND = 4 / (3 * np.sqrt(3))  # the largest |tanh''|


class Given(NamedTuple):
    """A network, parameters w (1, P), features x (1, samples, features) and cotangents u (1, samples, outputs)."""

    model: ResNet
    w: np.ndarray
    x: np.ndarray
    u: np.ndarray

    @classmethod
    def drawn(cls, model, samples=20, rough=0.05, seed=0):
        """Random data, and parameters that differ from layer to layer."""
        rng = np.random.default_rng(seed)
        w = model.init(rng) + rough * rng.standard_normal(model.parameters)
        return cls(model, w[None], *(rng.standard_normal((1, samples, n)) for n in (model.features, model.outputs)))

    def errors(self, found):
        """Frobenius norms of the error of a gradient (1, P), array by array."""
        difference = (found - self.model.vjp(self.w, self.x, self.u))[0]
        return np.array([np.linalg.norm(difference[a.start : a.start + int(np.prod(a.shape))]) for a in self.model.layout])


def allowed(given, residuals, coarsening):
    """Bounds of :meth:`Given.errors` for tanh, by constants of the weights and the last residuals alone.

    A step has the Lipschitz constant ``1 + h |W|``. Residuals r at N corners, and s of the cotangents, let errors grow to

        e_n <= (1 + h |W_n|) e_{n-1} + r_n ,     f_{n-1} <= (1 + h |W_n|) f_n + h B |W_n|^2 m_n e_{n-1} + s_n ,

    with B the largest of |tanh''| and m_n the largest exact cotangent at a layer. The gradient ``h u_{n-1}' (l_n s'(a_n))`` of
    W_n is then off by at most ``h e_{n-1} |l_n + f_n| + h |u_{n-1}| (f_n + B |W_n| e_{n-1} m_n)``.
    """
    model, (w, x, u) = given.model, given[1:]
    (first, shift), *layers, (head, _) = [(weights[0], bias[0]) for weights, bias in model._split(w)]
    h, N = model.step, model.layers // coarsening
    norms = [np.linalg.norm(weights, 2) for weights, _ in layers]
    states = [np.tanh(x[0] @ first + shift)]
    for weights, bias in layers:
        states.append(states[-1] + h * np.tanh(states[-1] @ weights + bias))
    cotangents = [u[0] @ head.T]
    for (weights, bias), state in zip(layers[::-1], states[-2::-1], strict=True):
        slope = 1 - np.tanh(state @ weights + bias) ** 2
        cotangents.insert(0, cotangents[0] + h * (cotangents[0] * slope) @ weights.T)
    # The sum of N residuals is at most root N times the root of the sum of their squares: all of it as early as it may be.
    e = [np.sqrt(N) * residuals.forward[-1]]
    for norm in norms:
        e.append((1 + h * norm) * e[-1])
    f = [np.sqrt(N) * residuals.adjoint[-1]]
    for layer in reversed(range(model.layers)):
        most = np.abs(cotangents[layer + 1]).max()
        f.insert(0, (1 + h * norms[layer]) * f[0] + h * BEND * norms[layer] ** 2 * most * e[layer])
    size = np.linalg.norm
    bounds = [size(x[0]) * f[0], np.sqrt(len(x[0])) * f[0]]
    for layer, norm in enumerate(norms):
        off = f[layer + 1] + BEND * norm * e[layer] * np.abs(cotangents[layer + 1]).max()
        bounds.append(h * (e[layer] * (size(cotangents[layer + 1]) + f[layer + 1]) + size(states[layer]) * off))
        bounds.append(h * np.sqrt(len(x[0])) * off)
    return np.array([*bounds, size(u) * e[-1], 0.0])
