"""An animated network."""

from __future__ import annotations

import os
from typing import TypeVar

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks, _progress
from consensus.history import History
from consensus.plotting.networks import draw_edges, edge_style, layout, topology
from consensus.plotting.runs import convergence
from topologies.schedules import ScheduleLike

P = TypeVar("P", str, os.PathLike)

_SHOWN_AFTER = 2  # seconds: from then on there is a progress bar


def animate(
    schedule: ScheduleLike,
    history: History,
    path: P,
    *,
    rounds: ArrayLike | None = None,
    y: str = "disagreement",
    seconds_a_frame: float = 0.2,
    seed: int = 0,
) -> P:
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
        In (0, 600].
    seed : int
        Of the layout, which is the same in all frames unless the graphs bring positions of their own.

    Returns
    -------
    path
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    wanted = "a schedule, such as topologies.Static(graph)"
    graph_of = _checks.offers("schedule", schedule, ("agents", "key", "graph"), wanted).graph
    _checks.history(history)
    _checks.path("path", path)
    seconds_a_frame = _checks.number("seconds_a_frame", seconds_a_frame, above=0, most=600)
    shown = _rounds(history, rounds)
    figure = Figure(figsize=(9, 4), dpi=80, layout="constrained")
    canvas, (left, right) = FigureCanvasAgg(figure), figure.subplots(1, 2)
    convergence(history, y=y, ax=right)
    marker = right.axvline(shown[0], color="0.5", linewidth=1, animated=True)
    title = left.set_title("round")
    graphs = _with_positions([graph_of(round) for round in shown], schedule, seed)
    network = _Drawn(graphs, left)
    canvas.draw()  # everything that stays as it is, once; the layout with it
    figure.set_layout_engine("none")
    title.set_animated(True)
    network.stamp(canvas)
    canvas.draw()
    still = canvas.copy_from_bbox(figure.bbox)
    frames = []
    pairs = zip(shown, graphs, strict=True)
    for round, graph in _progress.bar(iterable=pairs, total=len(shown), desc="frames", delay=_SHOWN_AFTER):
        canvas.restore_region(still)
        network.draw(graph)
        title.set_text(f"round {round}")
        left.draw_artist(title)
        marker.set_xdata([round, round])
        right.draw_artist(marker)
        image = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1).convert("RGB")
        frames.append(image.quantize(64, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE))
    first, *others = frames
    duration = max(1, int(np.rint(1000 * seconds_a_frame)))
    first.save(os.fspath(path), format="GIF", save_all=True, append_images=others, duration=duration, loop=0)
    return path


def _rounds(history, rounds):
    """The recorded rounds to show, as whole numbers."""
    if not history.rows or "round" not in history:
        raise ValueError(f"history must have rows, with a column 'round'; got {history}")
    recorded = history["round"].astype(int)
    if rounds is None:
        return recorded[np.unique(np.linspace(0, len(recorded) - 1, 100).astype(int))].tolist()
    rounds = _checks.array("rounds", rounds)
    if rounds.ndim != 1 or not rounds.size or rounds.dtype.kind not in "iu":
        raise ValueError(f"rounds must be a sequence of whole numbers, at least one; got {_checks.shown(rounds)}")
    missing = sorted(set(rounds.tolist()) - set(recorded.tolist()))
    if missing:
        raise ValueError(f"rounds must be among the recorded ones; {missing[:5]} are not")
    return rounds.tolist()


def _with_positions(graphs, schedule, seed):
    """The graphs, all nodes with ``pos``: their own, or the layout of all edges together."""
    if any(len(nx.get_node_attributes(graph, "pos")) < len(graph) for graph in graphs):
        whole = nx.from_scipy_sparse_array(schedule.union()) if hasattr(schedule, "union") else nx.compose_all(graphs)
        positions = layout(whole, seed)
        for graph in graphs:
            nx.set_node_attributes(graph, positions, "pos")
    return graphs


class _Drawn:
    """A network on its axis: the nodes and names are made once and moved, lines are given new ends.

    All are ``animated``: in the still picture they are not there.
    """

    def __init__(self, graphs, ax):
        from matplotlib.collections import LineCollection

        topology(graphs[0], ax=ax)
        self.ax, self.names, self.stamps = ax, list(ax.texts), []
        artists = [*ax.patches, *ax.collections]
        self.nodes = artists.pop()
        for artist in artists:  # the edges
            artist.remove()
        self.size, most = self.nodes.get_sizes()[0], max(graph.number_of_edges() for graph in graphs)
        self.lines = ax.add_collection(LineCollection([], **edge_style(most)), autolim=False)
        for artist in (self.nodes, self.lines, *self.names):
            artist.set_animated(True)
        places = np.concatenate([_places(graph) for graph in graphs])
        room = 0.08 * np.ptp(places, axis=0).max() or 1.0
        ax.set(xlim=(places[:, 0].min() - room, places[:, 0].max() + room))
        ax.set(ylim=(places[:, 1].min() - room, places[:, 1].max() + room))

    def stamp(self, canvas):
        """Make pictures of the names: setting type takes longer than all the rest of a frame."""
        renderer = canvas.get_renderer()
        for name in self.names:
            x, y = self.ax.transData.transform(name.xy).round()
            box = name.get_window_extent(renderer)
            left, low, right, high = int(box.x0) - 2, int(box.y0) - 2, int(box.x1) + 3, int(box.y1) + 3
            renderer.clear()
            name.draw(renderer)
            upward = np.asarray(canvas.buffer_rgba())[::-1]
            picture = upward[max(low, 0) : high, max(left, 0) : right].copy()
            self.stamps.append((picture, max(left, 0) - x, max(low, 0) - y))

    def draw(self, graph):
        """Draw the graph of a round into the canvas."""
        places = _places(graph)
        at = dict(zip(graph, places, strict=True))
        if graph.is_directed():
            for arrow in draw_edges(graph, at, self.ax, self.size):
                self.ax.draw_artist(arrow)
                arrow.remove()
        else:
            self.lines.set_segments([(at[one], at[other]) for one, other in graph.edges])
            self.ax.draw_artist(self.lines)
        self.nodes.set_offsets(places)
        self.ax.draw_artist(self.nodes)
        renderer = self.ax.figure.canvas.get_renderer()
        context = renderer.new_gc()
        pixels = self.ax.transData.transform(places).round()
        for (picture, right, up), (x, y) in zip(self.stamps, pixels, strict=False):  # large networks have no names
            renderer.draw_image(context, x + right, y + up, picture)


def _places(graph):
    return np.array([place for _, place in graph.nodes(data="pos")], dtype=float)
