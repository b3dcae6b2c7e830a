"""Figures of networks."""

import networkx as nx
import numpy as np

from consensus.plotting.runs import COLOURS, MARKERS, convergence, new_axes


def topology(network, values=None, *, round=0, label=None, ax=None, seed=0):
    """Draw a network of agents.

    Parameters
    ----------
    network : networkx.Graph or schedule
        Of a schedule, the graph of ``round``. Node attributes ``pos`` are used where all nodes have them.
    values : array_like (agents,), optional
        Colours the agents; a bar shows the scale.
    label : str, optional
        What ``values`` are.
    ax : matplotlib Axes, optional
    seed : int
        Of the layout.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import topologies
    >>> ax = topology(topologies.ring(5), values=[0, 1, 2, 3, 4], label="samples")
    >>> len(ax.collections) > 0
    True
    """
    graph = network if isinstance(network, nx.Graph) else network.graph(round)
    agents = list(graph)
    if values is not None and np.shape(values) != (len(agents),):
        raise ValueError(f"values must have shape ({len(agents)},), one for each agent; got {np.shape(values)}")
    if ax is None:
        ax = new_axes((4.8, 4.0))
    positions = nx.get_node_attributes(graph, "pos")
    if len(positions) < len(agents):
        # Springs untangle small graphs best; beyond that they take minutes.
        positions = nx.spring_layout(graph, seed=seed) if len(agents) <= 300 else nx.circular_layout(graph)
    size = float(np.clip(4000 / max(1, len(agents)), 8, 250))
    nx.draw_networkx_edges(graph, positions, ax=ax, edge_color="0.6", width=0.8, node_size=size)
    colours = "0.85" if values is None else np.asarray(values, dtype=float)
    nodes = nx.draw_networkx_nodes(
        graph,
        positions,
        ax=ax,
        node_color=colours,
        cmap=None if values is None else "viridis",
        node_size=size,
        edgecolors="black",
        linewidths=0.6,
    )
    if values is not None:
        ax.figure.colorbar(nodes, ax=ax, label=label or "value")
    if len(agents) <= 40:
        for number, agent in enumerate(agents):
            shade = 1.0 if values is None else nodes.norm(colours[number])
            ax.text(
                *positions[agent],
                str(agent),
                ha="center",
                va="center",
                fontsize=7,
                color="black" if shade > 0.5 else "white",
            )
    ax.set_axis_off()
    ax.set_aspect("equal")
    return ax


def animate(schedule, history, path, *, rounds=None, y="disagreement", seconds_a_frame=0.2, seed=0):
    """Write an animated GIF: the network of each recorded round beside a quantity that shrinks.

    Parameters
    ----------
    schedule : schedule
    history : History
        Of a run over it; its recorded rounds are the frames.
    path : path
        The GIF to write.
    rounds : sequence of int, optional
        Show only these of the recorded rounds (at most a hundred, evenly spread, by default).
    y : str
        The column to plot.
    seconds_a_frame : float
    seed : int
        Of the layout, which is the same in all frames unless the graphs bring positions of their own.

    Returns
    -------
    path
    """
    import matplotlib.pyplot as plt
    from matplotlib.animation import FuncAnimation, PillowWriter

    recorded = history["round"]
    if rounds is None:
        rounds = recorded[np.unique(np.linspace(0, len(recorded) - 1, 100).astype(int))]
    missing = sorted(set(map(int, rounds)) - set(recorded.tolist()))
    if missing:
        raise ValueError(f"rounds must be among the recorded ones; {missing[:5]} are not")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    convergence({y: history}, y=y, ax=right)
    right.get_legend().remove()
    marker = right.axvline(0, color="0.5", linewidth=1)
    whole = nx.from_scipy_sparse_array(schedule.union())
    positions = nx.spring_layout(whole, seed=seed)

    def draw(round):
        left.clear()
        graph = schedule.graph(int(round))
        if len(nx.get_node_attributes(graph, "pos")) < len(graph):
            nx.set_node_attributes(graph, positions, "pos")
        topology(graph, ax=left)
        left.set_title(f"round {int(round)}")
        marker.set_xdata([round, round])

    animation = FuncAnimation(figure, draw, frames=list(rounds))
    animation.save(path, writer=PillowWriter(fps=1 / seconds_a_frame), dpi=80)
    plt.close(figure)
    return path


def spectrum(matrices, *, ax=None):
    """Plot the eigenvalues' moduli of mixing matrices, largest first: the second one is how slowly agents agree.

    Parameters
    ----------
    matrices : mapping of str to sparse or dense matrix (agents, agents)
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    ax = ax or new_axes((6.4, 4.0))
    for index, (name, matrix) in enumerate(matrices.items()):
        dense = matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
        moduli = np.sort(np.abs(np.linalg.eigvals(dense)))[::-1]
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        ax.plot(np.arange(1, len(moduli) + 1), moduli, marker, label=name, color=colour, markersize=4)
    ax.set(xlabel="eigenvalue, by modulus", ylabel="modulus")
    ax.grid(True, color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.legend(frameon=False)
    return ax


def degrees(graph, *, ax=None):
    """Plot how many agents have how many neighbours.

    Parameters
    ----------
    graph : networkx.Graph
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    ax = ax or new_axes((4.8, 3.4))
    counts = np.bincount([degree for _, degree in graph.degree()])
    ax.bar(np.arange(len(counts)), counts, color=COLOURS[2], width=0.8)
    ax.set(xlabel="neighbours", ylabel="agents")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.yaxis.get_major_locator().set_params(integer=True)
    return ax
