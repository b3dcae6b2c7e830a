"""Figures of runs and networks. Colours and line styles differ in grey print too."""

import networkx as nx
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
}

# From dark to light, so that the order survives in grey; repeated with other dashes beyond five.
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
        ax = _axes((6.4, 4.0))
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
    if histories:
        ax.legend(frameon=False)
    return ax


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
        ax = _axes((4.8, 4.0))
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
    ax = ax or _axes((6.4, 4.0))
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
    ax = ax or _axes((4.8, 3.4))
    counts = np.bincount([degree for _, degree in graph.degree()])
    ax.bar(np.arange(len(counts)), counts, color=COLOURS[2], width=0.8)
    ax.set(xlabel="neighbours", ylabel="agents")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.yaxis.get_major_locator().set_params(integer=True)
    return ax


def _axes(size):
    import matplotlib.pyplot as plt  # here: importing the package should not choose a window system

    return plt.subplots(figsize=size, layout="constrained")[1]
