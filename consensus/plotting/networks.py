"""Figures of networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.plotting.runs import literal, new_axes
from topologies.schedules import ScheduleLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator

_NAMED = 40  # most agents that are named
_LONGEST = 18  # letters of a name
_FONT = 7  # points
_SPRINGS = 500  # most agents of a spring layout, which takes long


def topology(
    network: nx.Graph | ScheduleLike,
    values: ArrayLike | None = None,
    *,
    round: int = 0,
    label: str | None = None,
    ax: Axes | None = None,
    seed: int = 0,
) -> Axes:
    """Draw a network of agents.

    Up to 40 agents are named by their node attribute ``label`` or their node. Names that do not fit into the nodes are written
    below them, shortened to 18 letters.

    Parameters
    ----------
    network : networkx.Graph or schedule
        Network. Node attributes ``pos`` are the positions if all nodes have them.
    values : array_like (agents,), optional
        Values that colour the agents; a colour bar shows the scale.
    round : int
        Round of a schedule.
    label : str, optional
        Label of the colour bar.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    seed : int
        Seed of the layout.

    Returns
    -------
    matplotlib Axes
        The axes.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong type, or `values` does not have a number for each agent.

    Examples
    --------
    >>> import topologies
    >>> from consensus.plotting import topology
    >>> ax = topology(topologies.ring(5), values=[0, 1, 2, 3, 4], label="samples")
    >>> len(ax.collections) > 0
    True
    """
    graph, ax = graph_of(network, round), _checks.axes(ax)
    agents = list(graph)
    if not agents:
        raise ValueError("network must have at least one agent; got a graph without nodes")
    if values is not None:
        values = _checks.array("values", values)
        if values.shape != (len(agents),):
            raise ValueError(f"values must have shape ({len(agents)},), one for each agent; got {values.shape}")
    size = float(np.clip(4000 / len(agents), 12, 250))
    names = _names(graph) if len(agents) <= _NAMED else []
    inside = max(map(len, names), default=0) * 0.6 * _FONT <= 0.9 * size**0.5  # a letter is about so wide; both in points
    if ax is None:
        ax = new_axes((4.8, 4.0) if len(agents) <= 100 and inside else (7.2, 6.0))
    positions = layout(graph, seed, evenly=not inside)
    draw_edges(graph, positions, ax, size)
    nodes = nx.draw_networkx_nodes(
        graph,
        positions,
        ax=ax,
        node_color="0.85" if values is None else values.astype(float),
        cmap=None if values is None else "viridis",
        node_size=size,
        edgecolors="black",
        linewidths=0.6 if len(agents) <= 100 else 0.3,
    )
    if values is not None:
        bar = ax.figure.colorbar(nodes, ax=ax, label=literal(label or "value"))
        if np.isfinite(values).all() and (values == np.rint(values)).all():
            bar.locator = whole_numbers()
            bar.update_ticks()
    light = np.ones(len(agents)) if values is None else nodes.norm(values.astype(float))
    for name, agent, shade in zip(names, agents, light, strict=False):  # there may be no names
        _write(name, positions[agent], ax, "white" if inside and shade <= 0.5 else "black", 0 if inside else size**0.5 / 2)
    if not inside:
        ax.margins(0.15)  # space for the outer names
    ax.set_axis_off()
    ax.set_aspect("equal")
    return ax


def graph_of(network: nx.Graph | ScheduleLike, round: int = 0) -> nx.Graph:
    """Return a graph, or the graph of a schedule in a round."""
    if isinstance(network, nx.Graph):
        return network
    wanted = "a networkx graph or a schedule, as topologies.ring(10)"
    graph: nx.Graph = _checks.offers("network", network, ("graph", "agents", "key"), wanted).graph(
        _checks.count("round", round, least=0)
    )
    return graph


def layout(graph: nx.Graph, seed: int = 0, evenly: bool = False) -> dict[Any, Any]:
    """Return the positions of the nodes: their own ``pos`` or a layout, in which `evenly` separates those of small graphs."""
    positions: dict[Any, Any] = nx.get_node_attributes(graph, "pos")
    if len(positions) < len(graph):
        connected = nx.is_connected(graph.to_undirected())
        if evenly and connected:
            positions = nx.kamada_kawai_layout(graph)
        elif len(graph) <= _SPRINGS:
            positions = nx.spring_layout(graph, seed=_checks.count("seed", seed, least=0))
        else:
            positions = nx.spectral_layout(graph) if connected else nx.circular_layout(graph)
    return positions


def edge_style(many: int) -> dict[str, Any]:
    """Return the style of so many edges: the more, the finer and paler."""
    width, alpha = np.clip(60 / (many + 1) ** 0.7, 0.3, 0.8), np.clip(1500 / (many + 1), 0.08, 1)
    return {"colors": "0.45" if many > 150 else "0.6", "linewidths": float(width), "alpha": float(alpha)}


def draw_edges(graph: nx.Graph, positions: Mapping[Any, Any], ax: Axes, size: float) -> Any:  # noqa: ANN401  # lines or arrows
    """Draw the edges between nodes of a size, as arrows if the graph is directed; return the artists."""
    style = edge_style(graph.number_of_edges())
    look = {"edge_color": style["colors"], "width": style["linewidths"], "alpha": style["alpha"]}
    return nx.draw_networkx_edges(graph, positions, ax=ax, node_size=size, **look)


def _names(graph: nx.Graph) -> list[str]:
    """Return the names of the nodes, their attribute ``label`` or themselves; long names lose their middle."""
    names = [str(graph.nodes[agent].get("label", agent)) for agent in graph]
    half = _LONGEST // 2
    return [name if len(name) <= _LONGEST else f"{name[:half]}…{name[1 - half :]}" for name in names]


def _write(name: str, position: tuple[float, float], ax: Axes, colour: str, below: float) -> None:
    """Write a name at the centre of its node, or below it by so many points."""
    from matplotlib import patheffects

    where: dict[str, Any] = {"va": "top", "xytext": (0, -below - 1)} if below else {"va": "center", "xytext": (0, 0)}
    text = ax.annotate(literal(name), position, textcoords="offset points", ha="center", fontsize=_FONT, color=colour, **where)
    if below:
        text.set_path_effects([patheffects.withStroke(linewidth=2, foreground="white")])


def whole_numbers() -> MaxNLocator:
    """Return a locator of ticks at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(integer=True)
