"""Figures of runs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.history import History

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DIVERGED = 1e6  # times the usual values
_FEW = 2.0  # decades of a logarithmic axis on which more than the powers of ten have labels
_NAMED = 12  # agents of which each has a curve with its name

LABELS = {
    "round": "rounds",
    "exchanges": "exchanges with neighbours",
    "messages": "messages sent in the network",
    "bytes_busiest": "bytes through the busiest agent",
    "bytes_between_hosts": "bytes sent between machines",
    "floats": "numbers sent in the network",
    "bytes": "bytes sent in the network",
    "gradients": "gradients per agent",
    "samples": "samples in gradients",
    "epochs": "passes over the data",
    "seconds": "wall time in rounds [s]",
    "objective": "objective U at the agents' mean",
    "stationarity": "stationarity at the agents' mean",
    "disagreement": "disagreement (root mean square)",
    "agent_objective": "objective of the agents' data",
    "agent_test_error": "test errors on the agents' rows",
    "test_error": "test error of the mean",
    "test_error_worst": "test error of the worst agent",
    "tau_least": "least tau of an agent",
    "tau_largest": "largest tau of an agent",
    "exchanges_a_round": "exchanges a round",
    "tries": "local solves in a round, at most",
}

# Colours differ in grey print, too: from dark to light. Beyond five they repeat with other dashes and markers.
COLORS = ("#000000", "#7a1040", "#0072b2", "#d97700", "#6fc3b4")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = "osD^vPX*"


def convergence(
    histories: History | Mapping[str, History],
    y: str = "objective",
    x: str = "round",
    *,
    ax: Axes | None = None,
    offset: float = 0.0,
    log: bool = True,
    log_x: bool = False,
) -> Axes:
    """Plot a recorded quantity of several runs; the axes exclude runs that diverge.

    Parameters
    ----------
    histories : History, or mapping of str to History
        Histories by their names in the legend. A single one has no legend, unless y has a curve for each of up to 12 agents:
        they are named.
    y, x : str
        Columns, for example ``y="stationarity"``, ``x="exchanges"``.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    offset : float
        Value to subtract from y, such as the optimal value.
    log, log_x : bool
        Whether the axis of y, or of x, is logarithmic.

    Returns
    -------
    matplotlib Axes
        The axes; ``ax.figure.savefig(path)`` writes the figure.

    Raises
    ------
    TypeError
        If `histories` or `ax` is of the wrong type.
    ValueError
        If a history has no rows, or lacks a column.

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
    if list(curves) == [""] and curves[""][1].ndim == 2 and curves[""][1].shape[1] <= _NAMED:
        across = curves[""][0]
        curves = {_named(agent): (across, values - offset) for agent, values in histories[""].of_agents(y).items()}
    ax = ax or new_axes((6.4, 4.0))
    if log:
        ax.set_yscale("log")
    if log_x:
        ax.set_xscale("log")
        _few_labels(ax)
    for index, (name, (across, values)) in enumerate(curves.items()):
        colour = COLORS[index % len(COLORS)]
        style = DASHES[(index + index // len(COLORS)) % len(DASHES)]
        shown = across > 0 if log_x else slice(None)
        heights = (np.where(values > 0, values, np.nan) if log else values)[shown]
        marker = MARKERS[index % len(MARKERS)]
        lines = ax.plot(across[shown], heights, color=colour, linestyle=style, marker=marker, markersize=4, linewidth=1.5)
        lines[0].set_label(literal(name))  # a column of arrays has a line for each agent
        for line in lines:
            if np.isfinite(line.get_ydata()).any():  # matplotlib cannot place markers on an empty line
                line.set_markevery((0.03 * index, 0.15))
    keep_in_view(ax, [values for _, values in curves.values()])
    label = LABELS.get(y) or literal(y)
    ax.set(xlabel=LABELS.get(x) or literal(x), ylabel=f"{label} less {offset:.6g}" if offset else label)
    ax.grid(True, which="major", color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    if any(curves):
        ax.legend(frameon=False)
    return ax


def _few_labels(ax: Axes) -> None:
    """Label 1, 2, 5, 10, ... of a logarithmic axis of x that spans less than two decades, where all would overlap."""
    from matplotlib.ticker import FuncFormatter, LogFormatterMathtext

    powers = LogFormatterMathtext()
    powers.set_axis(ax.xaxis)

    def text(value: float, place: int | None) -> str:
        low, high = ax.get_xlim()
        decades, digit = np.log10(high / low), round(value / 10 ** np.floor(np.log10(value) + 1e-9))
        if decades > _FEW:
            return powers(value, place) if digit in (1, 10) else ""
        shown = digit in ((1, 2, 5, 10) if decades > 0.6 else range(1, 11))
        return (f"{value:g}" if value < 1e5 else f"${digit}\\cdot10^{{{np.log10(value):.0f}}}$") if shown else ""

    ax.xaxis.set_major_formatter(FuncFormatter(text))
    ax.xaxis.set_minor_formatter(FuncFormatter(text))


def _named(agent: Hashable) -> str:
    return f"agent {agent}" if isinstance(agent, int) else str(agent)


def _by_name(histories: History | Mapping[str, History]) -> Mapping[str, History]:
    named: Mapping[str, History] = {"": histories} if isinstance(histories, History) else histories
    wanted = "a History, as consensus.solve(...).history"
    if not isinstance(named, Mapping):
        raise TypeError(
            f'histories must be {wanted}, or a mapping of names to them: {{"NEXT": history}}; got {_checks.shown(histories)}'
        )
    for name, history in named.items():
        if not isinstance(history, Mapping):
            raise TypeError(f"histories[{name!r}] must be {wanted}; got {_checks.shown(history)}")
    return named


def _column(history: History, argument: str, column: str, name: str) -> np.ndarray:
    who = f"history {name!r}" if name else "history"
    if not len(history):
        raise ValueError(f"histories must have rows to draw; the {who} has none")
    if not isinstance(column, str) or column not in history:
        raise ValueError(
            f"{argument} must be a column of the {who}, one of {', '.join(map(str, history))}; got {_checks.shown(column)}"
        )
    return _checks.array(f"column {column!r} of the {who}", history[column])


def keep_in_view(ax: Axes, curves: Sequence[ArrayLike]) -> None:
    """Limit the axis of y to the curves that did not diverge, if some did.

    A curve diverged if it ends near its highest value, a million times its first one and the usual ones of the others.
    """
    finite = [np.abs(values[np.isfinite(values) & (values != 0)]) for values in map(np.asarray, curves)]
    finite = [values for values in finite if values.size]
    usual = min((float(np.median(values)) for values in finite), default=0.0)

    def diverged(values: np.ndarray) -> bool:
        top = values.max()
        return bool(top > _DIVERGED * max(values.flat[0], usual) and values.flat[-1] > 1e-3 * top)

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


def adaptation(history: History, *, x: str = "exchanges") -> Figure:
    """Plot the settings that :class:`consensus.solvers.AdaptiveNEXT` chose in a run.

    Parameters
    ----------
    history : History
        History of the run.
    x : str
        Column of the horizontal axis.

    Returns
    -------
    matplotlib Figure
        The objective; tau, from the least to the largest agent's; local solves of an agent and exchanges in each round.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.plotting import adaptation
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> figure = adaptation(consensus.solve(problem, topologies.ring(5), rounds=10).history)
    >>> [ax.get_ylabel() for ax in figure.axes]
    ["objective U at the agents' mean", 'tau', 'local solves in a round, at most', 'exchanges in a round']
    """
    import matplotlib.pyplot as plt

    needed = (x, "objective", "tau_least", "tau_largest", "tries", "exchanges_a_round")
    missing = [name for name in needed if name not in _checks.history(history)]
    if missing:
        raise ValueError(f"history must be of a run of AdaptiveNEXT; it has no column {', '.join(map(repr, missing))}")
    figure, axes = plt.subplots(2, 2, figsize=(8.4, 5.4), layout="constrained", sharex=True)
    convergence(history, x=x, ax=axes[0, 0])
    later = slice(1, None)  # at the start nothing was chosen
    across = history[x][later]
    tau = axes[0, 1]
    tau.fill_between(across, history["tau_least"][later], history["tau_largest"][later], color="0.8", label="all agents")
    tau.plot(across, history["tau_largest"][later], color=COLORS[0], linewidth=1, label="largest")
    tau.set(yscale="log", ylabel="tau")
    shown = (("tries", "local solves in a round, at most"), ("exchanges_a_round", "exchanges in a round"))
    for ax, colour, (column, label) in zip(axes[1], COLORS[1:], shown, strict=False):
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


def literal(name: object) -> str:
    """Return a name as figures show it: mathematics if Matplotlib can read what is between its dollars, else as it is."""
    from matplotlib.mathtext import MathTextParser

    text = str(name)
    try:
        MathTextParser("path").parse(text)
    except ValueError:
        return text.replace("$", r"\$")
    return text


def new_axes(size: tuple[float, float]) -> Axes:
    """Return the axes of a new figure of a size in inches."""
    import matplotlib.pyplot as plt  # not above, because it chooses a window system

    ax: Axes = plt.subplots(figsize=size, layout="constrained")[1]
    return ax
