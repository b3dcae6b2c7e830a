"""Animated networks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._arrays import progress as _progress
from consensus.history import History
from consensus.plotting.networks import draw_edges, edge_style, layout, topology
from consensus.plotting.runs import convergence
from topologies.schedules import ScheduleLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg

P = TypeVar("P", str, os.PathLike[str])

_SHOWN_AFTER = 2  # seconds after which there is a progress bar


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
    """Write an animated GIF of the network in each recorded round, beside a plot of the run.

    Parameters
    ----------
    schedule : schedule
        Network of the run, with graphs.
    history : History
        History of the run; its recorded rounds are the frames.
    path : path
        File to write.
    rounds : sequence of int, optional
        Recorded rounds to show; by default at most a hundred, evenly spaced.
    y : str
        Column to plot.
    seconds_a_frame : float
        Seconds that each frame is shown, in (0, 600].
    seed : int
        Seed of the layout, which is the same in all frames unless nodes have positions.

    Returns
    -------
    path
        The argument `path`.

    Examples
    --------
    >>> import pathlib, tempfile, topologies
    >>> from PIL import Image
    >>> from consensus import History
    >>> from consensus.plotting import animate
    >>> history = History()
    >>> for round in range(3):
    ...     history.append({"round": round, "disagreement": 0.1**round})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = animate(topologies.Matchings(6, seed=0), history, pathlib.Path(folder, "run.gif"))
    ...     with Image.open(path) as image:
    ...         print(image.n_frames, image.size)
    3 (720, 320)
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    wanted = "a schedule, such as topologies.Static(graph)"
    graph_of = _checks.offers("schedule", schedule, ("agents", "key", "graph"), wanted).graph
    _checks.history(history)
    file = _checks.path("path", path)
    seconds_a_frame = _checks.number("seconds_a_frame", seconds_a_frame, above=0, most=600)
    shown = _rounds(history, rounds)
    figure = Figure(figsize=(9, 4), dpi=80, layout="constrained")
    canvas, (left, right) = FigureCanvasAgg(figure), figure.subplots(1, 2)
    convergence(history, y=y, ax=right)
    marker = right.axvline(shown[0], color="0.5", linewidth=1, animated=True)
    title = left.set_title("round")
    graphs = _with_positions([graph_of(round) for round in shown], schedule, seed)
    network = _Drawn(graphs, left, canvas)
    canvas.draw()  # fixes the layout
    figure.set_layout_engine("none")
    title.set_animated(True)
    network.stamp()
    canvas.draw()
    background = canvas.copy_from_bbox(figure.bbox)
    frames = []
    pairs = zip(shown, graphs, strict=True)
    for round, graph in _progress.bar(iterable=pairs, total=len(shown), desc="frames", delay=_SHOWN_AFTER):
        canvas.restore_region(background)
        network.draw(graph)
        title.set_text(f"round {round}")
        left.draw_artist(title)
        marker.set_xdata([round, round])
        right.draw_artist(marker)
        image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
        frames.append(image.quantize(64, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE))
    first, *others = frames
    duration = max(1, int(np.rint(1000 * seconds_a_frame)))
    first.save(file, format="GIF", save_all=True, append_images=others, duration=duration, loop=0)
    return path


def _rounds(history: History, rounds: ArrayLike | None) -> list[int]:
    """Return the recorded rounds to show."""
    if not history.rows or "round" not in history:
        raise ValueError(f"history must have rows, with a column 'round'; got {history}")
    recorded: list[int] = history["round"].astype(int).tolist()
    if rounds is None:
        return [recorded[k] for k in np.unique(np.linspace(0, len(recorded) - 1, 100).astype(int))]
    wanted = _checks.array("rounds", rounds)
    if wanted.ndim != 1 or not wanted.size or wanted.dtype.kind not in "iu":
        raise ValueError(f"rounds must be a sequence of whole numbers, at least one; got {_checks.shown(wanted)}")
    shown: list[int] = wanted.tolist()
    missing = sorted(set(shown) - set(recorded))
    if missing:
        raise ValueError(f"rounds must be among the recorded ones; {missing[:5]} are not")
    return shown


def _with_positions(graphs: list[nx.Graph], schedule: ScheduleLike, seed: int) -> list[nx.Graph]:
    """Return the graphs with the node attribute ``pos``: their own, or a layout of all edges together."""
    if any(len(nx.get_node_attributes(graph, "pos")) < len(graph) for graph in graphs):
        union = getattr(schedule, "union", None)
        whole = nx.compose_all(graphs) if union is None else nx.from_scipy_sparse_array(union())
        positions = layout(whole, seed)
        for graph in graphs:
            nx.set_node_attributes(graph, positions, "pos")
    return graphs


class _Drawn:
    """A network on its axes: nodes and names are made once and moved, and edges get new ends.

    All are ``animated``, and so not part of the background.
    """

    def __init__(self, graphs: Sequence[nx.Graph], ax: Axes, canvas: FigureCanvasAgg) -> None:
        from matplotlib.collections import LineCollection, PathCollection
        from matplotlib.text import Annotation

        topology(graphs[0], ax=ax)
        self.ax, self.canvas = ax, canvas
        self.names = [text for text in ax.texts if isinstance(text, Annotation)]
        self.stamps: list[tuple[np.ndarray, float, float]] = []
        (self.nodes,) = [artist for artist in ax.collections if isinstance(artist, PathCollection)]
        for artist in [*ax.patches, *ax.collections]:
            if artist is not self.nodes:
                artist.remove()
        self.size, most = self.nodes.get_sizes()[0], max(graph.number_of_edges() for graph in graphs)
        self.lines = LineCollection([], **edge_style(most))
        ax.add_collection(self.lines, autolim=False)
        for artist in (self.nodes, self.lines, *self.names):
            artist.set_animated(True)
        places = np.concatenate([_places(graph) for graph in graphs])
        room = 0.08 * np.ptp(places, axis=0).max() or 1.0
        ax.set(xlim=(places[:, 0].min() - room, places[:, 0].max() + room))
        ax.set(ylim=(places[:, 1].min() - room, places[:, 1].max() + room))

    def stamp(self) -> None:
        """Make images of the names, because typesetting takes longer than the rest of a frame."""
        renderer = self.canvas.get_renderer()
        for name in self.names:
            x, y = self.ax.transData.transform(name.xy).round()
            box = name.get_window_extent(renderer)
            left, low, right, high = int(box.x0) - 2, int(box.y0) - 2, int(box.x1) + 3, int(box.y1) + 3
            renderer.clear()
            name.draw(renderer)
            upward = np.asarray(self.canvas.buffer_rgba())[::-1]
            picture = upward[max(low, 0) : high, max(left, 0) : right].copy()
            self.stamps.append((picture, max(left, 0) - x, max(low, 0) - y))

    def draw(self, graph: nx.Graph) -> None:
        """Draw the graph of a round."""
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
        renderer = self.canvas.get_renderer()
        context = renderer.new_gc()
        pixels = self.ax.transData.transform(places).round()
        for (picture, right, up), (x, y) in zip(self.stamps, pixels, strict=False):  # large networks have no names
            renderer.draw_image(context, x + right, y + up, picture)


def _places(graph: nx.Graph) -> np.ndarray:
    return np.array([place for _, place in graph.nodes(data="pos")], dtype=float)
