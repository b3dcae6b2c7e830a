"""Figures of the eigenvalues and degrees of networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

import topologies
from consensus import _checks
from consensus.plotting.networks import graph_of, whole_numbers
from consensus.plotting.runs import COLORS, MARKERS, literal, new_axes
from topologies.schedules import ScheduleLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Matrix: TypeAlias = ArrayLike | sp.sparray | sp.spmatrix | nx.Graph | ScheduleLike
Item = TypeVar("Item")


def spectrum(matrices: Matrix | Mapping[str, Matrix], *, round: int = 0, log_x: bool = False, ax: Axes | None = None) -> Axes:
    """Plot the moduli of the eigenvalues of mixing matrices, largest first; the second bounds the speed of agreement.

    Parameters
    ----------
    matrices : matrix (agents, agents), networkx.Graph or schedule, or mapping of str to these
        Matrix, sparse or dense, a graph with Metropolis weights, or a schedule; in a mapping, by the name in the legend.
    round : int
        Round of a schedule.
    log_x : bool
        Whether the horizontal axis is logarithmic.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes.

    Examples
    --------
    >>> import topologies
    >>> from consensus.plotting import spectrum
    >>> ax = spectrum({"ring": topologies.ring(8), "star": topologies.star(8)})
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['ring', 'star']
    """
    named, ax, log_x = _named("matrices", matrices), _checks.axes(ax), _checks.flag("log_x", log_x)
    moduli = {name: _moduli(f"matrices[{name!r}]" if name else "matrices", item, round) for name, item in named.items()}
    ax = ax or new_axes((6.4, 4.0))
    for index, (name, values) in enumerate(moduli.items()):
        colour, marker = COLORS[index % len(COLORS)], MARKERS[index % len(MARKERS)]
        ax.plot(np.arange(1, len(values) + 1), values, marker, label=literal(name), color=colour, markersize=4)
    ax.set(xlabel="eigenvalue, by modulus", ylabel="modulus", xscale="log" if log_x else "linear")
    if not log_x:
        ax.xaxis.set_major_locator(whole_numbers())
    ax.grid(True, color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    if any(named):
        ax.legend(frameon=False)
    return ax


def _moduli(name: str, matrix: Matrix, round: int) -> np.ndarray:
    if isinstance(matrix, nx.Graph):
        matrix = topologies.metropolis(matrix)
    elif hasattr(matrix, "weights") and hasattr(matrix, "key"):
        matrix = matrix.weights(matrix.key(_checks.count("round", round, least=0)))
    dense = _checks.array(name, matrix.toarray() if hasattr(matrix, "toarray") else matrix)
    if dense.ndim != 2 or dense.shape[0] != dense.shape[1] or not dense.size:
        raise ValueError(f"{name} must be a square matrix (agents, agents), a graph or a schedule; got shape {dense.shape}")
    if not np.isfinite(dense).all():
        raise ValueError(f"{name} must hold finite numbers")
    return np.sort(np.abs(np.linalg.eigvals(dense.astype(float))))[::-1]


def degrees(graph: nx.Graph | ScheduleLike | Mapping[str, nx.Graph | ScheduleLike], *, ax: Axes | None = None) -> Axes:
    """Plot a histogram of the numbers of neighbours.

    Parameters
    ----------
    graph : networkx.Graph or schedule, or mapping of str to these
        Graph, or a schedule for the union of its graphs; in a mapping, by the name in the legend.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes.

    Examples
    --------
    >>> import topologies
    >>> from consensus.plotting import degrees
    >>> ax = degrees(topologies.star(5))
    >>> {round(bar.get_x() + bar.get_width() / 2): int(bar.get_height()) for bar in ax.patches if bar.get_height()}
    {1: 4, 4: 1}
    """
    named, ax = _named("graph", graph), _checks.axes(ax)
    counts = {name: np.bincount(_degrees(item)) for name, item in named.items()}
    ax = ax or new_axes((4.8, 3.4))
    width = 0.8 / len(counts)
    for index, (name, agents) in enumerate(counts.items()):
        places = np.arange(len(agents)) + (index - (len(counts) - 1) / 2) * width
        colour = COLORS[2] if len(counts) == 1 else COLORS[index % len(COLORS)]
        ax.bar(places, agents, color=colour, width=width, label=literal(name))
    ax.set(xlabel="neighbours", ylabel="agents")
    ax.xaxis.set_major_locator(whole_numbers())
    ax.yaxis.set_major_locator(whole_numbers())
    if any(named):
        ax.legend(frameon=False)
    return ax


def _degrees(network: nx.Graph | ScheduleLike) -> np.ndarray:
    union = getattr(network, "union", None)
    if union is not None and hasattr(network, "key"):
        return np.diff(union().tocsr().indptr)
    return np.array([degree for _, degree in graph_of(network).degree()], dtype=int)


def _named(name: str, items: Item | Mapping[str, Item]) -> Mapping[str, Item]:
    """Return the items by name; a single one has an empty name."""
    if not isinstance(items, Mapping):
        return {"": items}
    if not items:
        raise ValueError(f"{name} is empty: there is nothing to draw")
    return items
