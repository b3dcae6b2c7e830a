"""The local problem, and the solver that fits it."""

from consensus.local.proximal import proximal_step
from consensus.local.quadratic import solve_quadratic
from consensus.surrogates.full import ProximalModel


def solve_local(model, linear, regularizer):
    """``argmin_w g~_i(w; w_i) + linear_i . (w - w_i) + r(w)`` for every agent of a block.

    Parameters
    ----------
    model : ProximalModel or LinearizedModel
        The surrogates g~_i, from ``surrogate.at(problem, w, gradient)``.
    linear : ndarray (agents, P)
        pi_i, the linear term that stands for the other agents' costs.
    regularizer : Regularizer

    Returns
    -------
    ndarray (agents, P)
        Row i is agent i's minimiser. A row is NaN where its problem is no longer finite.
    """
    if isinstance(model, ProximalModel):
        return proximal_step(model, linear, regularizer)
    return solve_quadratic(model, linear, regularizer)
