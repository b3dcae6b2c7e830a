"""Figures of runs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from consensus import _checks
from consensus.history import History

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DIVERGED = 1e6  # times what is usual

LABELS = {
    "round": "rounds",
    "exchanges": "exchanges with neighbours",
    "messages": "messages sent in the network",
    "bytes_busiest": "bytes through the busiest agent",
    "floats": "numbers sent in the network",
    "bytes": "bytes sent in the network",
    "gradients": "gradients per agent",
    "samples": "samples in gradients",
    "epochs": "passes over the data",
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
}

# Colours and line styles differ in grey print too: from dark to light, so that the order survives; repeated with other
# dashes and markers beyond five.
COLOURS = ("#000000", "#7a1040", "#0072b2", "#d97700", "#6fc3b4")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = "osD^vPX*"


def convergence(
    histories: History | Mapping[str, History],
    y: str = "objective",
    x: str = "round",
    *,
    ax: "Axes | None" = None,
    offset: float = 0.0,
    log: bool = True,
    log_x: bool = False,
) -> "Axes":
    """Plot a recorded quantity of several runs.

    A run that diverges leaves the axes: they end where the others are.

    Parameters
    ----------
    histories : History, or mapping of str to History
        By the name that the legend shows; a single one has no legend.
    y, x : str
        Columns, for example ``y="stationarity"``, ``x="exchanges"``.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    offset : float
        Subtracted from y: with the optimal value the figure shows the gap to it.
    log, log_x : bool
        Whether the axis of y, or of x, is logarithmic.

    Returns
    -------
    matplotlib Axes
        ``ax.figure.savefig(path)`` writes it.

    Raises
    ------
    TypeError
        If ``histories`` are none, or ``ax`` is no Axes.
    ValueError
        If a history has no rows, or not the columns.

    Examples
    --------
    >>> from consensus import History
    >>> from consensus.plotting import convergence
    >>> history = History()
    >>> history.append({"round": 0, "objective": 1.0})
    >>> ax = convergence({"NEXT": history})
    >>> ax.get_xlabel()
    'rounds'
    """
    histories, ax = _by_name(histories), _checks.axes(ax)
    offset, log, log_x = _checks.number("offset", offset), _checks.flag("log", log), _checks.flag("log_x", log_x)
    curves = {name: (_column(h, "x", x, name), _column(h, "y", y, name) - offset) for name, h in histories.items()}
    if ax is None:
        ax = new_axes((6.4, 4.0))
    for scale, wanted in ((ax.set_yscale, log), (ax.set_xscale, log_x)):
        if wanted:
            scale("log")
    for index, (name, (across, values)) in enumerate(curves.items()):
        colour = COLOURS[index % len(COLOURS)]
        style = DASHES[(index + index // len(COLOURS)) % len(DASHES)]
        shown = across > 0 if log_x else slice(None)
        heights = (np.where(values > 0, values, np.nan) if log else values)[shown]
        lines = ax.plot(
            across[shown],
            heights,
            color=colour,
            linestyle=style,
            marker=MARKERS[index % len(MARKERS)],
            markersize=4,
            linewidth=1.5,
        )
        for line in lines:
            if np.isfinite(line.get_ydata()).any():  # matplotlib cannot place markers on a line of nothing
                line.set_markevery((0.03 * index, 0.15))
        for line in lines[:1]:  # of many, one for each agent
            line.set_label(name)
    keep_in_view(ax, [values for _, values in curves.values()])
    label = LABELS.get(y, y)
    ax.set(xlabel=LABELS.get(x, x), ylabel=f"{label} less {offset:.6g}" if offset else label)
    ax.grid(True, which="major", color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    if any(histories):
        ax.legend(frameon=False)
    return ax


def _by_name(histories):
    if isinstance(histories, History):
        return {"": histories}
    if not isinstance(histories, Mapping):
        wanted = 'a History, as consensus.solve(...).history, or a mapping of names to them: {"NEXT": history}'
        raise TypeError(f"histories must be {wanted}; got {_checks.shown(histories)}")
    for name, history in histories.items():
        if not isinstance(history, Mapping):
            raise TypeError(
                f"histories[{name!r}] must be a History, as consensus.solve(...).history; got {_checks.shown(history)}"
            )
    return histories


def _column(history, argument, column, name):
    who = f"history {name!r}" if name else "history"
    if not len(history):
        raise ValueError(f"histories must have rows to draw; the {who} has none")
    if not isinstance(column, str) or column not in history:
        raise ValueError(
            f"{argument} must be a column of the {who}, one of {', '.join(map(str, history))}; got {_checks.shown(column)}"
        )
    return _checks.array(f"column {column!r} of the {who}", history[column])


def keep_in_view(ax, curves):
    """End the axis of y where the ``curves`` (arrays) are that did not diverge; leave it alone if all did not.

    A curve diverged if it ends near its highest value, and that is a million times its first one and the others' usual ones.
    """
    finite = [np.abs(values[np.isfinite(values) & (values != 0)]) for values in map(np.asarray, curves)]
    finite = [values for values in finite if values.size]
    usual = min((np.median(values) for values in finite), default=0)

    def diverged(values):
        top = values.max()
        return top > _DIVERGED * max(values.flat[0], usual) and values.flat[-1] > 1e-3 * top

    kept = [values for values in finite if not diverged(values)]
    if not kept or len(kept) == len(finite):
        return
    top = max(values.max() for values in kept)
    ax.set_autoscaley_on(False)  # before anything asks for limits of numbers near the largest
    if ax.get_yscale() == "log":
        ax.set_ylim(min(values.min() for values in kept) / 2, 10 * top)
    else:
        below = any((np.asarray(values) < 0).any() for values in curves)
        ax.set_ylim(-1.1 * top if below else -0.05 * top, 1.1 * top)


def adaptation(history: History, *, x: str = "exchanges") -> "Figure":
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
        The objective; tau, from the least to the largest agent's; local solves of an agent and exchanges in each round.
    """
    import matplotlib.pyplot as plt

    needed = (x, "objective", "tau_least", "tau_largest", "tries", "exchanges_a_round")
    missing = [name for name in needed if name not in _checks.history(history)]
    if missing:
        raise ValueError(f"history must be of a run of AdaptiveNEXT; it has no column {', '.join(map(repr, missing))}")
    figure, axes = plt.subplots(2, 2, figsize=(8.4, 5.4), layout="constrained", sharex=True)
    convergence(history, x=x, ax=axes[0, 0])
    later = slice(1, None)  # at the start nothing is decided yet
    across = history[x][later]
    tau = axes[0, 1]
    tau.fill_between(across, history["tau_least"][later], history["tau_largest"][later], color="0.8", label="all agents")
    tau.plot(across, history["tau_largest"][later], color=COLOURS[0], linewidth=1, label="largest")
    tau.set(yscale="log", ylabel="tau")
    shown = (("tries", "local solves in a round, at most"), ("exchanges_a_round", "exchanges in a round"))
    for ax, colour, (column, label) in zip(axes[1], COLOURS[1:], shown, strict=False):
        ax.step(across, history[column][later], where="post", color=colour)
        ax.set(ylabel=label, ylim=(0, None))
        ax.yaxis.get_major_locator().set_params(integer=True)
    for ax in axes.flat:
        ax.grid(True, which="major", color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
    tau.legend(frameon=False)
    for ax in axes[1]:
        ax.set_xlabel(LABELS.get(x, x))
    axes[0, 0].set_xlabel("")
    return figure


def new_axes(size: tuple[float, float]) -> "Axes":
    """A new figure's axes, ``size`` in inches."""
    import matplotlib.pyplot as plt  # here: importing the package should not choose a window system

    return plt.subplots(figsize=size, layout="constrained")[1]
