"""Averages over the network from a few exchanges, fitted to what the exchanges are seen to do."""

from typing import NamedTuple

import numpy as np

from topologies.analysis import crossing

_PROBES = 256  # at most: up to so many agents each has a probe of its own


class Exchanged(NamedTuple):
    """What some exchanges brought to the agents of a block.

    Fields: the agents' ``masses``, shape (agents, 1); their estimates of the ``averages``, and of the means behind the
    ``sums``; the ``mixed`` rows of what is summed, raw; how many exchanges were ``done``; the ``pace`` for the next time, 0
    before it is found, and the ``fit`` for then: (agents, 0) where every agent makes its own; on a static graph the equations
    (agents, pace, pace + 1) that each agent brings to a common one, at last that itself (agents, pace).
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


def introduction(network, masses, averaged, summed, target):
    """As :func:`exchange` on a static graph of which the agents know nothing yet, plain, until they know what they need.

    In every message an agent says whom it has heard from, who it knows has heard from all, and who has by then a misfit of at
    most ``target``, besides; in how many exchanges the slowest of these had; the least weight for themselves, and whether all
    rows of W are symmetric (a neighbour's weight comes with the first message) and sum to one, of all it has heard of. After D
    exchanges, the diameter, each has heard from all; after D more all know D, and that all know it, and whether D exchanges
    were enough for everyone: then the pace is D, for less is never enough.
    """
    x, probes, goal, columns = _start(network, masses, averaged, summed)
    history, least = [x], max(1, network.crossing(0))
    for k in range(2 * least):
        history.append(network.mix(k, history[-1], beside=3 * network.names + 4 + (k == 0))[0])
    # Nothing is made of these coefficients, so that they may be as large as they like.
    misfit = _fit(_seen(history[: least + 1], probes), goal, cut=1e3 * np.finfo(x.dtype).eps)[1]
    pace = least if network.all_say(misfit <= target) else 0
    return _estimate(history, probes, goal, columns, averaged.shape[1], pace, _no_fit(x))


def first_exchange(network, masses, averaged, summed, target, first=0):
    """As :func:`exchange`, until the misfit of every agent is at most ``target``, and until all know.

    In every message an agent says who it knows is done, that is has heard from everyone and has a misfit of at most
    ``target``, as it will have from then on; and after how many exchanges, K, the last of these was. On a static graph, where
    an :func:`introduction` went before, that has come to everyone in D more exchanges. On a changing one the messages say
    whom the sender has heard from, too, and there are as many exchanges again, in which later rounds need K: that suffices
    unless news goes more slowly the second time. Then the agents are given by how much: on a network that changes as it likes
    no messages tell for sure that all have had the last one.
    """
    x, probes, goal, columns = _start(network, masses, averaged, summed)
    history, pace, end, least = [x], 0, np.inf, network.crossing(first)
    beside = network.names + 1 if network.static else 2 * network.names + 1
    while len(history) <= end:
        done = len(history)
        history.append(_next(network, first + done - 1, history, beside))
        refuse_long(network.agents, done)
        if pace or done < least:
            continue
        own = _seen(history, probes)
        if network.all_say(_fit(own, goal)[1] <= target):
            pace = done
            end = done + (least if network.static else max(done, network.crossing(first + done)))
            fit = _equations(own, goal) if network.doubly_stochastic else _no_fit(x)
    return _estimate(history, probes, goal, columns, averaged.shape[1], pace, fit)


def refuse_long(agents, exchanges):
    """Raise ``ValueError`` if so many exchanges, the first ones on a network of so many agents, cannot be averaging."""
    if agents > _PROBES and exchanges > _PROBES // 2:  # so many coefficients fit too few probes to anything
        raise ValueError(
            f"{exchanges} exchanges, or more, are needed to find the averages of {agents} agents: among more than {_PROBES} "
            f"AdaptiveNEXT takes networks where {_PROBES // 2} are enough; NEXT and GradientTracking take this one"
        )


def least_exchanges(schedule):
    """How many exchanges the first round takes at least: news crosses the network twice. ValueError if they are too many."""
    least = crossing(schedule)
    refuse_long(schedule.agents, 2 * least)
    return 2 * least


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
    matrix W, which keeps sums too, and no probes are needed. What each agent brings to its least squares goes round in the
    next K exchanges.

    Parameters
    ----------
    network : Network
    first : int
        The schedule's round of the first exchange.
    pace : int
        K.
    fit : ndarray (agents, K)
        The common b, a row an agent; (agents, 0) if there is none; (agents, K, K + 1) what goes round before there is.
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
    if fit.ndim == 3:  # the last exchange of this call brings the last rows, and only then are histories combined
        fit = _common(network, first, fit)
    if fit.shape[1]:
        data = np.concatenate([masses * averaged, summed], axis=1)
        return _polynomial(network, first, fit, masses, data, averaged.shape[1])
    x, probes, goal, columns = _start(network, masses, averaged, summed)
    history = [x]
    for k in range(pace):
        history.append(_next(network, first + k, history))
    if network.doubly_stochastic:
        fit = _equations(_seen(history, probes), goal)
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


def _next(network, round, history, beside=0):
    """What one more exchange makes of ``history``: C x_{k-1}; where W is symmetric, x_k = T_k(Y) x_0.

    Y is W with its eigenvalues stretched from [a, 1] to [-1, 1], T_k Chebyshev's polynomial. These span what the powers of W
    do, and keep sums and agreements as those do, but do not come to look alike: combinations of many keep their digits.
    """
    (x,) = network.mix(round, history[-1], beside=beside)
    a = network.least_eigenvalue
    if a is None:
        return x
    x = (2 * x - (1 + a) * history[-1]) / (1 - a)
    return 2 * x - history[-2] if len(history) > 1 else x


def _seen(history, where):
    """The columns ``where`` of all that was seen, per mass: (agents, K + 1, columns)."""
    return np.stack([x[:, where] / x[:, :1] for x in history], axis=1)


def _cut(dtype):
    """Singular values that count as zero: larger coefficients would carry rounding into the estimates."""
    return max(1.5e-6, 10 * np.sqrt(np.finfo(dtype).eps))


def _fit(probes, goal, cut=None):
    """Each agent's b (agents, K), and its misfit relative to that of its own probe."""
    steps, left = np.diff(probes, axis=1), goal - probes[:, -1]
    b = np.einsum("am,amk->ak", left, np.linalg.pinv(steps, rcond=_cut(probes.dtype) if cut is None else cut))
    left -= np.einsum("ak,akm->am", b, steps)
    scale = np.linalg.norm(goal - probes[:, 0], axis=1)
    return b, np.linalg.norm(left, axis=1) / np.where(scale > 0, scale, 1)  # a network of one agent has nothing to fit


def _no_fit(x):
    return np.zeros((len(x), 0), x.dtype)


def _equations(probes, goal):
    """Each agent's share of the least squares for one b, made triangular: as few equations as b has entries, their right-hand
    sides last; (agents, K, K + 1)."""
    steps, left = np.diff(probes, axis=1), goal - probes[:, -1]
    K = steps.shape[1]
    whole = np.zeros((len(steps), max(K, steps.shape[2]), K + 1), probes.dtype)
    whole[:, : steps.shape[2], :K], whole[:, : steps.shape[2], K] = steps.swapaxes(1, 2), left
    return np.triu(np.linalg.qr(whole, mode="r")[:, :K])


def _common(network, first, equations):
    """The b (agents, K) of least squares over all agents, to whom their equations come with the K exchanges from ``first``."""
    agents, K, _ = equations.shape
    upper = np.triu_indices(K, 0, K + 1)
    rows = network.flood(first, K, equations[:, *upper])
    whole = np.zeros((network.agents, K, K + 1), rows.dtype)
    whole[:, *upper] = rows
    whole = whole.reshape(-1, K + 1)
    return np.tile(np.linalg.pinv(whole[:, :K], rcond=_cut(rows.dtype)) @ whole[:, K], (agents, 1))


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
