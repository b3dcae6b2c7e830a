"""The local problem of a full linearization."""


def proximal_step(model, linear, regularizer):
    """``prox_{r/tau}(w_i - (grad g_i + linear_i) / tau)``, the minimiser of ``ProximalModel + linear + r``."""
    return regularizer.prox(model.w - (model.gradient + linear) / model.tau, 1 / model.tau)
