"""Averages over the network from a few exchanges, fitted to what the exchanges are seen to do."""

from typing import NamedTuple

import numpy as np

_PROBES = 256  # at most: up to so many agents each has a probe of its own


class Exchanged(NamedTuple):
    """What some exchanges brought to the agents of a block.

    Fields: the agents' ``masses``, shape (agents, 1); their estimates of the ``averages``, and of the means behind the
    ``sums``; the ``mixed`` rows of what is summed, raw; how many exchanges were ``done``; the ``pace`` for the next time, and
    the ``fit`` (agents, pace) that a static graph allows, or (agents, 0).
    """

    masses: np.ndarray
    averages: np.ndarray
    sums: np.ndarray
    mixed: np.ndarray
    done: int
    pace: int
    fit: np.ndarray


def extra(agents):
    """How many columns an exchange adds at most, beside masses."""
    return min(agents, _PROBES)


def first_exchange(network, masses, averaged, summed, target):
    """As :func:`exchange`, until the misfit of every agent is at most ``target``, and as many exchanges again.

    In the second half it spreads that all are done, and what a static graph's common fit takes. So each later round needs
    half as many: the pace.
    """
    x, probes, goal, columns = _start(network, masses, averaged, summed)
    history, pace, end, least = [x], 0, np.inf, network.crossing(0)
    while len(history) <= end:
        done = len(history)
        history.append(_next(network, done - 1, history))
        if network.agents > _PROBES and max(done, least) > _PROBES // 2:  # so many coefficients fit too few probes to anything
            raise ValueError(
                f"{max(done, least)} exchanges do not bring the averages to {network.agents} agents: among more than {_PROBES} "
                "AdaptiveNEXT takes networks that are better connected; NEXT and GradientTracking take this one"
            )
        if pace or done < least:
            continue
        own = _seen(history, probes)
        misfit = _fit(own, goal)[1]
        if (network.flood(0, misfit[:, None]) <= target).all():
            pace, end = done, done + max(done, network.crossing(done))
            fit = _common_fit(network, history[-1][:, :1], own, goal)
    return _estimate(history, probes, goal, columns, averaged.shape[1], pace, fit)


def exchange(network, first, pace, fit, masses, averaged, summed):
    """Mix with neighbours ``pace`` times, and let every agent estimate the averages over all agents from what it saw.

    Starting from x_0, agents mix, x_k = C_k x_{k-1} (on a static graph with symmetric W, x_k = T_k(W) x_0 with Chebyshev's
    polynomials). Whatever the matrices, what an agent holds is a combination of all agents' data: probes that are mixed along,
    of which everyone knows the mean p^, show which. With the masses m_k (one at the start of a run, mixed along) and
    z_k = x_k / m_k, an agent takes the combination of its own history

        x^ = z_K + sum_k b_k (z_k - z_{k-1}),      b = argmin | p^ - (its probes, combined so) |^2 ,

    which keeps an agreement whatever b is (up to rounding times b). On a changing, failing or directed graph every agent has a
    b of its own in every round; what is summed goes on as C_K ... C_1 x_0, which keeps the sum. On a static graph with doubly
    stochastic weights one b fits the probes of all agents together: x^ is then the best polynomial of degree K in the mixing
    matrix W, which keeps sums too, and no probes are needed after the first round.

    Parameters
    ----------
    network : Network
    first : int
        The schedule's round of the first exchange.
    pace : int
        K.
    fit : ndarray (agents, K)
        The common b, a row an agent; (agents, 0) if there is none.
    masses : ndarray (agents, 1)
    averaged, summed : ndarray (agents, columns)
        Data whose average is wanted, weighted by the masses, such as iterates; data whose sum over agents the mixing is to
        keep, such as trackers.

    Returns
    -------
    Exchanged

    References
    ----------
    Montijano, Montijano, Sagues, "Chebyshev polynomials in consensus applications", Signal Processing 93(3), 2013, for
    polynomials; Kempe, Dobra, Gehrke, "Gossip-based computation of aggregate information", FOCS 2003, for masses.
    """
    if fit.shape[1]:
        data = np.concatenate([masses * averaged, summed], axis=1)
        return _polynomial(network, first, fit, masses, data, averaged.shape[1])
    x, probes, goal, columns = _start(network, masses, averaged, summed)
    history = [x]
    for k in range(pace):
        history.append(_next(network, first + k, history))
    return _estimate(history, probes, goal, columns, averaged.shape[1], pace, fit)


def _start(network, masses, averaged, summed):
    """What is sent first, and where in it the probes are, their mean, and where the data are."""
    if network.agents <= _PROBES:
        everyone = np.eye(network.agents, dtype=summed.dtype)
    else:
        everyone = np.random.default_rng(network.agents).choice(np.array([-1, 1], summed.dtype), (network.agents, _PROBES))
    x = np.concatenate([masses, masses * averaged, summed, everyone[network.rows]], axis=1)
    width = averaged.shape[1] + summed.shape[1]
    return x, slice(1 + width, None), everyone.mean(axis=0), slice(1, 1 + width)


def _next(network, round, history):
    """What one more exchange makes of ``history``: C x_{k-1}; where W is symmetric, x_k = T_k(Y) x_0.

    Y is W with its eigenvalues stretched from [a, 1] to [-1, 1], T_k Chebyshev's polynomial. These span what the powers of W
    do, and keep sums and agreements as those do, but do not come to look alike: combinations of many keep their digits.
    """
    (x,) = network.mix(round, history[-1])
    a = network.least_eigenvalue
    if a is None:
        return x
    x = (2 * x - (1 + a) * history[-1]) / (1 - a)
    return 2 * x - history[-2] if len(history) > 1 else x


def _seen(history, where):
    """The columns ``where`` of all that was seen, per mass: (agents, K + 1, columns)."""
    return np.stack([x[:, where] / x[:, :1] for x in history], axis=1)


def _fit(probes, goal):
    """Each agent's b (agents, K), and its misfit relative to that of its own probe."""
    steps, left = np.diff(probes, axis=1), goal - probes[:, -1]
    cut = max(1.5e-6, 10 * np.sqrt(np.finfo(probes.dtype).eps))  # larger coefficients would carry rounding into the estimates
    b = np.einsum("am,amk->ak", left, np.linalg.pinv(steps, rcond=cut))
    left -= np.einsum("ak,akm->am", b, steps)
    scale = np.linalg.norm(goal - probes[:, 0], axis=1)
    return b, np.linalg.norm(left, axis=1) / np.where(scale > 0, scale, 1)  # a network of one agent has nothing to fit


def _common_fit(network, masses, probes, goal):
    """One b for all agents (agents, K), from what each knows of the least squares; (agents, 0) where there can be none."""
    K = probes.shape[1] - 1
    known = network.static and bool((np.abs(network.flood(0, masses) - 1) < 1e-3).all())  # doubly stochastic
    if not known:
        return np.zeros((len(probes), 0), probes.dtype)
    steps, left = np.diff(probes, axis=1), goal - probes[:, -1]
    equations = steps @ np.concatenate([steps, left[:, None]], axis=1).swapaxes(1, 2)
    total = network.flood(0, equations).sum(axis=0)
    cut = 1e4 * np.finfo(probes.dtype).eps  # of squares
    return np.tile(np.linalg.pinv(total[:, :K], rcond=cut, hermitian=True) @ total[:, K], (len(probes), 1))


def _estimate(history, probes, goal, columns, split, pace, fit):
    """What each agent makes of all that it saw."""
    b, _ = _fit(_seen(history, probes), goal)
    old = history[0][:, columns] / history[0][:, :1]
    estimates = history[-1][:, columns] / history[-1][:, :1]
    for k, x in enumerate(history[1:]):
        new = x[:, columns] / x[:, :1]
        estimates += b[:, k, None] * (new - old)
        old = new
    masses, mixed = history[-1][:, :1], history[-1][:, columns][:, split:]
    return Exchanged(masses, estimates[:, :split], estimates[:, split:], mixed, len(history) - 1, pace, fit)


def _polynomial(network, first, fit, masses, data, split):
    """The common combination, which needs no history."""
    history, total = [data], 0
    for k in range(fit.shape[1]):
        history = [*history[-1:], _next(network, first + k, history[-2:])]
        total = total + fit[:, k, None] * (history[1] - history[0])
    total += history[-1]
    return Exchanged(masses, total[:, :split], total[:, split:], total[:, split:], fit.shape[1], fit.shape[1], fit)
