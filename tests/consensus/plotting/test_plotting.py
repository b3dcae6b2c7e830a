"""Figures of runs and networks, still and animated: their curves, nodes and texts; arguments that are rejected."""

import itertools

import matplotlib
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

import consensus
import topologies
from consensus import History, plotting
from tests.helpers.turns import in_turn, with_slow

matplotlib.use("Agg")
RING, STAR = topologies.ring(5), topologies.star(5)


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def history(rows=20, **columns):
    record = History()
    for row in range(rows):
        plain = {"round": row, "objective": 0.5**row, "exchanges": 2 * row, "stationarity": 0.0}
        record.append(plain | {name: column(row) for name, column in columns.items()})
    return record


HIGHER, DIVERGING = (history(objective=f) for f in (lambda n: 3 * 0.5**n, lambda n: 0.5 * 10.0 ** min(20 * n, 295)))


def heights(ax):
    return [line.get_ydata() for line in ax.get_lines()]


def bars(item):
    return [bar.get_height() for bar in plotting.degrees(item).patches]


def drawn(ax):
    ax.figure.canvas.draw()
    return ax


def test_convergence_plots_the_requested_columns():
    ax = plotting.convergence({"one": history(), "two": HIGHER}, y="objective", x="exchanges")
    np.testing.assert_array_equal(ax.get_lines()[0].get_xdata(), np.arange(0, 40, 2))
    np.testing.assert_allclose(heights(ax)[1], 3 * 0.5 ** np.arange(20))
    assert ax.get_yscale() == "log"
    assert ax.get_xlabel() == "exchanges with neighbours"
    assert "objective" in ax.get_ylabel()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]
    single = plotting.convergence(history(), x="exchanges", log_x=True)
    assert single.get_legend() is None
    assert single.get_xscale() == single.get_yscale() == "log"
    np.testing.assert_array_equal(single.get_lines()[0].get_xdata(), np.arange(2, 40, 2))  # without zero


def test_an_offset_shows_the_gap_and_zeros_are_not_drawn_on_a_logarithmic_axis():
    ax = plotting.convergence({"run": history()}, offset=0.5**19)
    assert np.isnan(heights(ax)[0][-1])
    np.testing.assert_allclose(heights(ax)[0][:-1], 0.5 ** np.arange(19) - 0.5**19)
    assert "less" in ax.get_ylabel()
    record = History()
    record.append({"round": 0, "agent_objective": np.array([0.0, 1.0])})
    for histories, y in ((record, "agent_objective"), (history(), "stationarity")):
        drawn(plotting.convergence(histories, y=y))
    _, given = plt.subplots()
    assert plotting.convergence({"run": history()}, y="stationarity", ax=given, log=False) is given
    assert given.get_yscale() == "linear"
    np.testing.assert_array_equal(heights(given)[0], 0)


@pytest.mark.parametrize("odd", ["loss", [], np])
def test_an_unknown_column_is_named_with_the_known_ones(odd):
    with pytest.raises(ValueError, match=r"^y must be a column of the history 'run', one of round, objective, .*; got "):
        plotting.convergence({"run": history()}, y=odd)
    with pytest.raises(ValueError, match=r"^x must be a column of the history, one of round, objective"):
        plotting.convergence(history(), x=odd)


@pytest.mark.parametrize(("first", "decades"), in_turn([1, 3, 700, 2e5], [0.3, 0.6, 1.0, 1.6, 1.9, 2.1, 4.0], every=8))
def test_labels_of_a_logarithmic_axis_do_not_overlap(first, decades):
    record = History()
    for x in np.geomspace(first, first * 10**decades, 9):
        record.append({"round": x, "objective": 1 / x})
    ax = plotting.convergence(record, log_x=True)
    drawn(ax)
    low, high = ax.get_xlim()
    labels = [
        label.get_window_extent()
        for minor in (False, True)
        for label, x in zip(ax.xaxis.get_ticklabels(minor=minor), ax.xaxis.get_ticklocs(minor=minor), strict=False)
        if label.get_text() and low <= x <= high
    ]
    labels.sort(key=lambda box: box.x0)
    assert len(labels) >= 2
    for one, next_one in itertools.pairwise(labels):
        assert one.x1 < next_one.x0


def test_runs_differ_in_grey_too():
    lines = plotting.convergence({str(run): history() for run in range(12)}).get_lines()
    colours = [float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114))) for colour in plotting.COLORS]
    assert np.diff(sorted(colours)).min() > 0.1
    assert len({(line.get_color(), str(line._dash_pattern)) for line in lines}) == 12
    for first, second in itertools.pairwise(lines):
        assert first._dash_pattern != second._dash_pattern
        assert first.get_marker() != second.get_marker()


@pytest.mark.parametrize("log", [True, False])
def test_the_axes_end_where_runs_that_did_not_diverge_are(log):
    ax = drawn(plotting.convergence({"good": history(), "diverging": DIVERGING}, log=log))
    low, high = ax.get_ylim()
    assert 1 < high <= 10 if log else 1 < high < 2
    assert low <= 0.5**19 if log else low <= 0
    np.testing.assert_array_equal(heights(ax)[1], DIVERGING["objective"])


def test_the_axes_contain_runs_that_fall_again_or_start_higher():
    falling = history(disagreement=lambda n: 1e-17 if n < 2 else 1e-2 * 0.2**n)
    for histories, y, top in (
        (falling, "disagreement", 4e-4),
        ({"one": history(objective=lambda n: 1e5 * 0.5**n), "two": history()}, "objective", 1e5),
    ):
        ax = plotting.convergence(histories, y=y)
        assert ax.get_autoscaley_on()
        assert ax.get_ylim()[1] > top


def test_an_adaptation_shows_tau_local_solves_and_exchanges_of_a_run():
    rng = np.random.default_rng(0)
    shards = consensus.partition(rng.standard_normal((30, 3)), rng.standard_normal(30), agents=5, seed=0)
    problem = consensus.Problem(consensus.MLP([3, 4, 1]), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    run = consensus.solve(problem, RING, rounds=12, record_every=1).history
    axes = plotting.adaptation(run).axes
    assert [ax.get_ylabel() for ax in axes[2:]] == ["local solves in a round, at most", "exchanges in a round"]
    for ax, column in zip(axes[1:], ("tau_largest", "tries", "exchanges_a_round"), strict=True):
        np.testing.assert_array_equal(ax.lines[0].get_xdata(), run["exchanges"][1:])
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), run[column][1:])
    with pytest.raises(ValueError, match=r"must be of a run of AdaptiveNEXT; it has no column 'tau_least'"):
        plotting.adaptation(history())


def test_topology_draws_every_agent_and_edge():
    graph = topologies.grid(3, 4)
    ax = plotting.topology(graph, values=np.arange(12), label="samples")
    edges, nodes = ax.collections[0], ax.collections[1]
    assert len(edges.get_segments()) == graph.number_of_edges()
    assert len(nodes.get_offsets()) == 12
    np.testing.assert_array_equal(nodes.get_array(), np.arange(12))
    assert ax.figure.axes[1].get_ylabel() == "samples"
    assert sorted(int(text.get_text()) for text in ax.texts) == list(range(12))
    schedule = topologies.RandomEdges(topologies.complete(6), 0.3, seed=0)
    for round in (0, 5):
        ax = plotting.topology(schedule, round=round)
        assert len(ax.collections[0].get_segments()) == schedule.graph(round).number_of_edges()
    placed = topologies.random_geometric(8, 0.6, seed=1)
    positions = [position for _, position in nx.get_node_attributes(placed, "pos").items()]
    np.testing.assert_allclose(plotting.topology(placed).collections[-1].get_offsets(), positions)


def test_agents_are_named_by_label_or_node():
    def names(network):
        return [text.get_text() for text in plotting.topology(network).texts]

    graph = nx.relabel_nodes(topologies.path(3), {0: "a", 1: "b", 2: "c"})
    assert names(graph) == ["a", "b", "c"]
    nx.set_node_attributes(graph, {"a": "Aarhus", "c": "a name that is far too long for a node"}, "label")
    assert names(graph) == ["Aarhus", "b", "a name th…r a node"]
    assert names(topologies.Static(graph))[0] == "Aarhus"
    ax = drawn(plotting.topology(graph))
    radius = np.sqrt(ax.collections[-1].get_sizes()[0]) / 2 * ax.figure.dpi / 72
    for text, place in zip(ax.texts, ax.collections[-1].get_offsets(), strict=True):
        box, (x, y) = text.get_window_extent(), ax.transData.transform(place)
        assert box.y1 < y - 0.9 * radius  # below the node
        assert box.x0 < x < box.x1


@pytest.mark.parametrize("agents", [3, 12, 40])
def test_names_inside_are_no_wider_than_their_node(agents):
    ax = drawn(plotting.topology(topologies.ring(agents)))
    diameter = np.sqrt(ax.collections[-1].get_sizes()[0]) * ax.figure.dpi / 72
    assert max(text.get_window_extent().width for text in ax.texts) < diameter


@pytest.mark.parametrize(
    ("values", "whole"),
    [([35, 36, 35, 36, 37], True), ([35.0, 36.0, 35.0, 36.0, 36.0], True), ([0.1, 0.2, 0.3, 0.4, 0.5], False)],
)
def test_a_bar_of_counts_has_whole_numbers(values, whole):
    ticks = drawn(plotting.topology(RING, values=values)).figure.axes[1].get_yticks()
    assert (ticks == np.rint(ticks)).all() == whole


@pytest.mark.slow
def test_four_hundred_agents_are_distinguishable():
    ax = drawn(plotting.topology(topologies.random_geometric(400, 0.09, seed=0)))
    nodes = ax.collections[-1]
    places = ax.transData.transform(nodes.get_offsets()) * 72 / ax.figure.dpi
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)[np.triu_indices(400, 1)]
    assert (apart < np.sqrt(nodes.get_sizes()[0])).mean() < 1e-3
    ax = drawn(plotting.topology(topologies.erdos_renyi(400, 0.03, seed=0)))
    grey = np.asarray(ax.figure.canvas.buffer_rgba())[..., 0]
    assert grey.std() > 25  # not one shade
    assert (grey > 240).mean() > 0.5


def test_degrees_and_spectrum_take_graphs_schedules_and_several():
    changing = topologies.RandomEdges(STAR, 0.5, seed=0)
    assert bars(STAR) == bars(topologies.Static(STAR)) == bars(changing) == [0, 4, 0, 0, 1]
    ax = plotting.degrees({"ring": topologies.ring(8), "star": changing})
    assert [bar.get_height() for bar in ax.patches] == [0, 0, 8, 0, 4, 0, 0, 1]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ring", "star"]
    ring = topologies.ring(6)
    matrix, expected = topologies.metropolis(ring), np.abs((1 + 2 * np.cos(2 * np.pi * np.arange(6) / 6)) / 3)
    moduli = [heights(plotting.spectrum(item))[0] for item in (matrix, matrix.toarray(), ring, topologies.Static(ring))]
    np.testing.assert_allclose(moduli, [np.sort(expected)[::-1]] * 4, atol=1e-12)
    of_round = heights(plotting.spectrum(changing, round=3))[0]
    expected = np.abs(np.linalg.eigvalsh(changing.weights(changing.key(3)).toarray()))
    np.testing.assert_allclose(np.sort(of_round), np.sort(expected), atol=1e-12)


@pytest.mark.parametrize(
    "odd", [None, 3, "x", [], object(), np.eye(2), {"NEXT": None}, {"NEXT": 3}, History], ids=lambda odd: type(odd).__name__
)
def test_histories_must_be_histories_with_rows(odd):
    with pytest.raises(TypeError, match=r"^histories(\['NEXT'\])? must be a History, as consensus\.solve\(\.\.\.\)\.history"):
        plotting.convergence(odd)
    with pytest.raises(TypeError, match=r"^history must be a History"):
        plotting.adaptation(odd)
    for empty in (History(), {"NEXT": History()}):
        with pytest.raises(ValueError, match=r"^histories must have rows to draw; the history( .NEXT.)? has none"):
            plotting.convergence(empty)


@pytest.mark.parametrize("odd", [3, "x", [], object(), plt])
def test_ax_must_be_axes(odd):
    for draw, item in (
        (plotting.convergence, history()),
        (plotting.topology, RING),
        (plotting.degrees, RING),
        (plotting.spectrum, RING),
    ):
        with pytest.raises(TypeError, match=r"^ax must be matplotlib Axes"):
            draw(item, ax=odd)


@pytest.mark.parametrize("odd", [None, 3, "x", [], object(), np.ones(3), History])
def test_networks_must_be_graphs_or_schedules(odd, tmp_path):
    for draw, item in ((plotting.topology, odd), (plotting.degrees, odd), (plotting.degrees, {"a": odd})):
        with pytest.raises(TypeError, match=r"^network must be a networkx graph or a schedule"):
            draw(item)
    with pytest.raises(TypeError, match=r"^schedule must be a schedule"):
        plotting.animate(odd, history(), tmp_path / "run.gif")
    with pytest.raises((TypeError, ValueError), match=r"^matrices(\['a'\])? must "):
        plotting.spectrum({"a": odd})
    with pytest.raises(ValueError, match=r"values must have shape \(5,\).*got \(4,\)"):
        plotting.topology(RING, values=np.ones(4))


@pytest.mark.parametrize("name", with_slow([r"$\frac{1}$", r"a $\nope$ b", "$_$"], r"$\frac{1}$", "$_$"))
def test_names_that_are_no_mathematics_are_drawn_as_they_are(name, tmp_path):
    history = History()
    history.append({"round": 0, "exchanges": 0, "objective": 1.0})
    graph = nx.relabel_nodes(nx.path_graph(3), {0: name})
    axes = [
        plotting.convergence({name: history}),
        plotting.topology(graph, values=[0, 1, 2], label=name),
        plotting.spectrum({name: graph}),
        plotting.degrees({name: graph}),
    ]
    for ax in axes:
        ax.figure.savefig(tmp_path / "drawn.png")
    assert axes[0].get_legend_handles_labels()[1] == [name.replace("$", r"\$")]
    assert plotting.convergence({r"$\tau = \frac{1}{2}$": history}).get_legend_handles_labels()[1] == [r"$\tau = \frac{1}{2}$"]


# Animated networks: a frame for each round, with its edges.


matplotlib.use("Agg")


@pytest.fixture
def frames(tmp_path):
    def make(schedule, rows, **options):
        record = History()
        for row in range(rows):
            record.append({"round": row, "objective": 0.5**row})
        pictures = []
        with Image.open(plotting.animate(schedule, record, tmp_path / "run.gif", y="objective", **options)) as image:
            for frame in range(image.n_frames):
                image.seek(frame)
                pictures.append(np.asarray(image.convert("L"), dtype=int))
        return pictures

    return make


def dark(picture):
    """Return the number of dark pixels of the network, without its title."""
    return (picture[40:, : picture.shape[1] // 2 - 60] < 200).sum()


def test_frames_show_the_edges_of_their_rounds(frames):
    pictures = frames(topologies.Periodic([topologies.path(4), nx.empty_graph(4)]), 4)
    assert len(pictures) == 4
    counts = [*map(dark, pictures)]
    assert min(counts[0], counts[2]) > 1.1 * max(counts[1], counts[3]) > 0


@pytest.mark.parametrize("schedule", [
    topologies.Mobile(5, 0.5, 0.1, seed=0),
    topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 0)]), weights=topologies.push),
    topologies.Static(topologies.ring(60)),
], ids=["moving", "directed", "without names"])  # fmt: skip
def test_kinds_of_networks_are_animated(frames, schedule):
    pictures = frames(schedule, 3)
    assert len(pictures) == 3
    assert dark(pictures[0]) > 100


def test_rounds_must_be_recorded(frames):
    with pytest.raises(ValueError, match=r"rounds must be among the recorded ones; \[9\] are not"):
        frames(topologies.Static(topologies.ring(6)), 5, rounds=[0, 9])


@pytest.mark.slow
def test_a_frame_draws_no_axis_again(frames, monkeypatch):
    drawn, counts, draw = [], [], matplotlib.axis.Axis.draw
    monkeypatch.setattr(matplotlib.axis.Axis, "draw", lambda axis, *rest: drawn.append(axis) or draw(axis, *rest))
    for rows in (2, 20):
        drawn.clear()
        frames(topologies.Static(topologies.ring(5)), rows)
        counts.append(len(drawn))
    assert counts[0] == counts[1] > 0
