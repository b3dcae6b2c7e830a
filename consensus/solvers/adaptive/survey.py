"""How many agents find one polynomial for their averages, from the network alone, before any data are sent."""

from typing import TYPE_CHECKING

import numpy as np

from consensus.solvers.adaptive import chebyshev, fit
from consensus.solvers.adaptive.first_exchanges import MOST

if TYPE_CHECKING:
    from consensus.engines.network import Network
    from consensus.solvers.adaptive.averaging import Averaging

_PROBES = 16  # each a sign of every agent: many enough to see the eigenvalues of so many agents


def survey(network: "Network", state: "Averaging", target: float) -> "Averaging":
    """The first exchanges of many agents on a static graph: with symmetric weights the pace K and the fit come of them.

    In 2 D exchanges all get to know the diameter D, and whether W is symmetric, as in
    :func:`consensus.solvers.adaptive.first_exchanges.introduce`. If it is, they mix 16 probes in 128 more. In 2 D more what
    these bring to least squares (:func:`fit.moments`) is added up along the tree on which the first agent's news came, and the
    sums come back. K is the first number of exchanges after which the misfit is at most ``target``, or 128; at least as many as
    it takes to go up the tree of the centre and down again, if these are not too many.

    Nothing of this is kept for longer than an exchange.
    """
    agents, first, crossing = network.agents, state.sent, max(1, network.crossing(0))
    network.talk(first, 2 * crossing, 3 * network.names + 4)
    first += 2 * crossing
    if network.least_eigenvalue is None:
        return state._replace(sent=first)
    signs = np.random.default_rng(agents).choice(np.array([-1, 1], network.dtype), (agents, _PROBES))
    history = [signs[network.rows]]
    products = [fit.neighbours(*history * 2)[:, :1]]
    for k in range(MOST):
        history = [*history[-1:], chebyshev.exchange(network, first + k, history[-2:])]
        products.append(fit.neighbours(*history))
    moments = network.sum(2 * crossing, fit.moments(np.concatenate(products, axis=1)))
    goal = agents * float(np.square(signs.mean(axis=0)).sum())
    up_and_down = 2 * network.tree.depth if network.tree else 1
    for K in range(up_and_down if up_and_down <= MOST else 1, MOST + 1):
        b, misfit = fit.polynomial(moments[: 2 * K + 1], goal, float(np.finfo(network.dtype).eps))
        if misfit <= target:
            break
    b = np.tile(b.astype(network.dtype), (len(state.mass), 1))
    return state._replace(pace=K, sent=first + MOST + 2 * crossing, fit=b)
