"""Figures of runs."""

import numpy as np

LABELS = {
    "round": "rounds",
    "exchanges": "exchanges with neighbours",
    "messages": "messages sent in the network",
    "floats": "numbers sent in the network",
    "bytes": "bytes sent in the network",
    "gradients": "gradients per agent",
    "seconds": "wall time in rounds [s]",
    "objective": "objective U at the agents' mean",
    "stationarity": "stationarity at the agents' mean",
    "disagreement": "disagreement (root mean square)",
    "test_error": "test error of the mean",
    "test_error_worst": "test error of the worst agent",
    "tau_least": "least tau of an agent",
    "tau_largest": "largest tau of an agent",
    "exchanges_a_round": "exchanges a round",
    "tries": "local solves in a round, at most",
    "pairs": "directions of known curvature",
}

# Colours and line styles differ in grey print too: from dark to light, so that the order survives; repeated with other
# dashes beyond five.
COLOURS = ("#000000", "#7a1040", "#0072b2", "#d97700", "#6fc3b4")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = "osD^v"


def convergence(histories, y="objective", x="round", *, ax=None, offset=0.0, log=True):
    """Plot a recorded quantity of several runs.

    Parameters
    ----------
    histories : mapping of str to History
        By the name that the legend shows.
    y, x : str
        Columns, for example ``y="stationarity"``, ``x="exchanges"``.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    offset : float
        Subtracted from y: with the optimal value the figure shows the gap to it.
    log : bool
        Whether the y axis is logarithmic.

    Returns
    -------
    matplotlib Axes
        ``ax.figure.savefig(path)`` writes it.

    Examples
    --------
    >>> from consensus import History
    >>> history = History()
    >>> history.append({"round": 0, "objective": 1.0})
    >>> ax = convergence({"NEXT": history})
    >>> ax.get_xlabel()
    'rounds'
    """
    if ax is None:
        ax = new_axes((6.4, 4.0))
    for index, (name, history) in enumerate(histories.items()):
        colour = COLOURS[index % len(COLOURS)]
        style = DASHES[(index + index // len(COLOURS)) % len(DASHES)]
        values = history[y] - offset
        ax.plot(
            history[x],
            np.where(values > 0, values, np.nan) if log else values,
            label=name,
            color=colour,
            linestyle=style,
            marker=MARKERS[index % len(MARKERS)],
            markevery=(0.03 * index, 0.15),
            markersize=4,
            linewidth=1.5,
        )
    if log:
        ax.set_yscale("log")
    label = LABELS.get(y, y)
    ax.set(xlabel=LABELS.get(x, x), ylabel=f"{label} less {offset:.6g}" if offset else label)
    ax.grid(True, which="major", color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    if any(histories):
        ax.legend(frameon=False)
    return ax


def adaptation(history, *, x="exchanges"):
    """Plot what :class:`consensus.solvers.AdaptiveNEXT` did by itself.

    Parameters
    ----------
    history : History
        Of its run.
    x : str
        The column along which.

    Returns
    -------
    matplotlib Figure
        The objective; tau, from the least to the largest agent's; local solves and exchanges a round; directions in use.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(8.4, 5.4), layout="constrained", sharex=True)
    convergence({"": history}, x=x, ax=axes[0, 0])
    later = slice(1, None)  # at the start nothing is decided yet
    across = history[x][later]
    tau = axes[0, 1]
    tau.fill_between(across, history["tau_least"][later], history["tau_largest"][later], color="0.8", label="all agents")
    tau.plot(across, history["tau_largest"][later], color=COLOURS[0], linewidth=1, label="largest")
    tau.set(yscale="log", ylabel="tau")
    counts = axes[1, 0]
    counts.step(across, history["tries"][later], where="post", color=COLOURS[2], label="local solves, at most")
    counts.step(across, history["exchanges_a_round"][later], DASHES[1], where="post", color=COLOURS[0], label="exchanges")
    counts.set(ylabel="in a round", ylim=(0, None))
    axes[1, 1].step(across, history["pairs"][later], where="post", color=COLOURS[1])
    axes[1, 1].set(ylabel=LABELS["pairs"], ylim=(0, None))
    for ax in axes.flat:
        ax.grid(True, which="major", color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
    for ax in (tau, counts):
        ax.legend(frameon=False)
    for ax in axes[1]:
        ax.set_xlabel(LABELS.get(x, x))
    axes[0, 0].set_xlabel("")
    return figure


def new_axes(size):
    """A new figure's axes, ``size`` in inches."""
    import matplotlib.pyplot as plt  # here: importing the package should not choose a window system

    return plt.subplots(figsize=size, layout="constrained")[1]
