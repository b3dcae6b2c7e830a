"""Figures: what they show, and that it can be told apart in grey print."""

import itertools

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

import consensus
import topologies
from consensus import History, plotting


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def history(scale=1.0, rows=20):
    record = History()
    for row in range(rows):
        record.append({"round": row, "objective": scale * 0.5**row, "exchanges": 2 * row, "stationarity": 0.0})
    return record


def test_convergence_plots_the_columns_asked_for():
    ax = plotting.convergence({"one": history(), "two": history(3.0)}, y="objective", x="exchanges")
    one, two = ax.get_lines()
    np.testing.assert_array_equal(one.get_xdata(), np.arange(0, 40, 2))
    np.testing.assert_allclose(two.get_ydata(), 3 * 0.5 ** np.arange(20))
    assert ax.get_yscale() == "log"
    assert ax.get_xlabel() == "exchanges with neighbours"
    assert "objective" in ax.get_ylabel()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]


def test_an_offset_shows_the_gap_and_zeros_leave_no_trace_on_a_log_axis():
    ax = plotting.convergence({"run": history()}, offset=0.5**19)
    gap = ax.get_lines()[0].get_ydata()
    assert np.isnan(gap[-1])
    np.testing.assert_allclose(gap[:-1], 0.5 ** np.arange(19) - 0.5**19)
    assert "less" in ax.get_ylabel()


def test_a_linear_axis_and_a_given_one():
    _, ax = plt.subplots()
    assert plotting.convergence({"run": history()}, y="stationarity", ax=ax, log=False) is ax
    assert ax.get_yscale() == "linear"
    np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), 0)


def test_a_curve_without_a_positive_value_can_be_drawn_on_a_log_axis():
    record = History()
    record.append({"round": 0, "agent_objective": np.array([0.0, 1.0])})
    for histories, y in ((record, "agent_objective"), (history(), "stationarity")):
        plotting.convergence(histories, y=y).figure.canvas.draw()


def test_an_unknown_column_lists_the_known():
    for odd in ("loss", [], np):
        with pytest.raises(ValueError, match=r"^y must be a column of the history 'run', one of round, objective, .*; got "):
            plotting.convergence({"run": history()}, y=odd)
        with pytest.raises(ValueError, match=r"^x must be a column of the history, one of round, objective"):
            plotting.convergence(history(), x=odd)


def test_runs_differ_in_grey_too():
    ax = plotting.convergence({str(run): history() for run in range(12)})
    lines = ax.get_lines()
    colours = [float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114))) for colour in plotting.COLOURS]
    assert np.diff(sorted(colours)).min() > 0.1
    assert len({(line.get_color(), str(line._dash_pattern)) for line in lines}) == 12
    for first, second in itertools.pairwise(lines):
        assert first._dash_pattern != second._dash_pattern
        assert first.get_marker() != second.get_marker()


def test_topology_draws_every_agent_and_edge():
    graph = topologies.grid(3, 4)
    ax = plotting.topology(graph, values=np.arange(12), label="samples")
    edges, nodes = ax.collections[0], ax.collections[1]
    assert len(edges.get_segments()) == graph.number_of_edges()
    assert len(nodes.get_offsets()) == 12
    np.testing.assert_array_equal(nodes.get_array(), np.arange(12))
    assert ax.figure.axes[1].get_ylabel() == "samples"
    assert sorted(int(text.get_text()) for text in ax.texts) == list(range(12))


def test_topology_of_a_schedule_shows_the_round_asked_for():
    schedule = topologies.RandomEdges(topologies.complete(6), 0.3, seed=0)
    for round in (0, 5):
        ax = plotting.topology(schedule, round=round)
        assert len(ax.collections[0].get_segments()) == schedule.graph(round).number_of_edges()


def test_topology_keeps_positions_where_there_are_some():
    graph = topologies.random_geometric(8, 0.6, seed=1)
    ax = plotting.topology(graph)
    nodes = ax.collections[-1]
    np.testing.assert_allclose(nodes.get_offsets(), [position for _, position in nx.get_node_attributes(graph, "pos").items()])


def test_values_must_fit():
    with pytest.raises(ValueError, match=r"values must have shape \(5,\).*got \(4,\)"):
        plotting.topology(topologies.ring(5), values=np.ones(4))


@pytest.mark.slow
def test_an_animation_has_a_frame_for_each_round(tmp_path):
    schedule = topologies.RandomEdges(topologies.ring(6), 0.5, seed=0)
    path = plotting.animate(schedule, history(rows=5), tmp_path / "run.gif", y="objective")
    with Image.open(path) as image:
        assert image.n_frames == 5
        first = np.asarray(image.convert("L"), dtype=int)
        image.seek(3)
        assert np.abs(np.asarray(image.convert("L"), dtype=int) - first).max() > 50  # something moved
    with pytest.raises(ValueError, match=r"rounds must be among the recorded ones; \[9\] are not"):
        plotting.animate(schedule, history(rows=5), tmp_path / "run.gif", rounds=[0, 9], y="objective")


def test_spectrum_and_degrees():
    matrix = topologies.metropolis(topologies.ring(6))
    ax = plotting.spectrum({"ring": matrix})
    expected = np.sort(np.abs((1 + 2 * np.cos(2 * np.pi * np.arange(6) / 6)) / 3))[::-1]
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), expected, atol=1e-12)
    bars = plotting.degrees(topologies.star(5)).patches
    assert [bar.get_height() for bar in bars] == [0, 4, 0, 0, 1]


def diverging(rows=20):
    record = History()
    for row in range(rows):
        record.append({"round": row, "exchanges": 2 * row, "objective": 0.5 * 10.0 ** min(20 * row, 295)})
    return record


@pytest.mark.parametrize("log", [True, False])
def test_a_run_that_diverges_leaves_the_axes_to_the_others(log):
    ax = plotting.convergence({"good": history(), "blew up": diverging()}, log=log)
    ax.figure.canvas.draw()
    low, high = ax.get_ylim()
    assert 1 < high <= 10 if log else 1 < high < 2
    assert low <= 0.5**19 if log else low <= 0
    np.testing.assert_array_equal(ax.get_lines()[1].get_ydata(), diverging()["objective"])


def test_what_rises_from_rounding_and_falls_again_is_kept():
    record = History()
    for row in range(20):
        record.append({"round": row, "disagreement": 1e-17 if row < 2 else 1e-2 * 0.2**row})
    ax = plotting.convergence(record, y="disagreement")
    assert ax.get_autoscaley_on()
    assert ax.get_ylim()[1] > 4e-4


def test_runs_that_only_rise_keep_their_axes():
    ax = plotting.convergence({"one": history(1e5), "two": history()})
    assert ax.get_ylim()[1] > 1e5
    assert ax.get_autoscaley_on()


def test_a_single_history_is_drawn_without_a_legend():
    ax = plotting.convergence(history(), x="exchanges", log_x=True)
    assert ax.get_legend() is None
    assert ax.get_xscale() == ax.get_yscale() == "log"
    np.testing.assert_array_equal(ax.get_lines()[0].get_xdata(), np.arange(2, 40, 2))  # zero has no place there


@pytest.mark.parametrize(
    "odd", [None, 3, "x", [], object(), np.eye(2), {"NEXT": None}, {"NEXT": 3}, History], ids=lambda odd: type(odd).__name__
)
def test_what_is_no_history_is_refused(odd):
    with pytest.raises(TypeError, match=r"^histories(\['NEXT'\])? must be a History, as consensus\.solve\(\.\.\.\)\.history"):
        plotting.convergence(odd)
    with pytest.raises(TypeError, match=r"^history must be a History"):
        plotting.adaptation(odd)


@pytest.mark.parametrize("odd", [3, "x", [], object(), plt])
def test_what_is_no_axes_is_refused(odd):
    ring = topologies.ring(4)
    for draw in (
        lambda: plotting.convergence(history(), ax=odd),
        lambda: plotting.topology(ring, ax=odd),
        lambda: plotting.degrees(ring, ax=odd),
        lambda: plotting.spectrum(ring, ax=odd),
    ):
        with pytest.raises(TypeError, match=r"^ax must be matplotlib Axes"):
            draw()


@pytest.mark.parametrize("odd", [None, 3, "x", [], object(), np.ones(3), History])
def test_what_is_no_network_is_refused(odd, tmp_path):
    for draw in (lambda: plotting.topology(odd), lambda: plotting.degrees(odd), lambda: plotting.degrees({"a": odd})):
        with pytest.raises(TypeError, match=r"^network must be a networkx graph or a schedule"):
            draw()
    with pytest.raises(TypeError, match=r"^schedule must be a schedule"):
        plotting.animate(odd, history(), tmp_path / "run.gif")
    with pytest.raises((TypeError, ValueError), match=r"^matrices(\['a'\])? must "):
        plotting.spectrum({"a": odd})


def test_an_empty_history_has_nothing_to_draw():
    for empty in (History(), {"NEXT": History()}):
        with pytest.raises(ValueError, match=r"^histories must have rows to draw; the history( .NEXT.)? has none"):
            plotting.convergence(empty)


def test_an_adaptation_shows_tau_local_solves_and_exchanges_of_a_run():
    rng = np.random.default_rng(0)
    shards = consensus.partition(rng.standard_normal((30, 3)), rng.standard_normal(30), agents=5, seed=0)
    problem = consensus.Problem(consensus.MLP([3, 4, 1]), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    run = consensus.solve(problem, topologies.ring(5), rounds=12).history
    axes = plotting.adaptation(run).axes
    assert [ax.get_ylabel() for ax in axes[2:]] == ["local solves in a round, at most", "exchanges in a round"]
    for ax, column in zip(axes[1:], ("tau_largest", "tries", "exchanges_a_round"), strict=True):
        np.testing.assert_array_equal(ax.lines[0].get_xdata(), run["exchanges"][1:])
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), run[column][1:])


def test_an_adaptation_needs_a_run_of_the_method():
    with pytest.raises(ValueError, match=r"must be of a run of AdaptiveNEXT; it has no column 'tau_least'"):
        plotting.adaptation(history())


def names(ax):
    return [text.get_text() for text in ax.texts]


def test_agents_are_named_by_label_or_node():
    graph = nx.relabel_nodes(topologies.path(3), {0: "a", 1: "b", 2: "c"})
    assert names(plotting.topology(graph)) == ["a", "b", "c"]
    nx.set_node_attributes(graph, {"a": "Aarhus", "c": "a name that is far too long for a node"}, "label")
    ax = plotting.topology(graph)
    assert names(ax) == ["Aarhus", "b", "a name th…r a node"]
    assert names(plotting.topology(topologies.Static(graph)))[0] == "Aarhus"
    ax.figure.canvas.draw()
    radius = np.sqrt(ax.collections[-1].get_sizes()[0]) / 2 * ax.figure.dpi / 72
    for text, place in zip(ax.texts, ax.collections[-1].get_offsets(), strict=True):
        box, (x, y) = text.get_window_extent(), ax.transData.transform(place)
        assert box.y1 < y - 0.9 * radius  # below the node
        assert box.x0 < x < box.x1


@pytest.mark.parametrize("agents", [3, 12, 40])
def test_names_inside_are_no_wider_than_their_node(agents):
    ax = plotting.topology(topologies.ring(agents))
    ax.figure.canvas.draw()
    diameter = np.sqrt(ax.collections[-1].get_sizes()[0]) * ax.figure.dpi / 72
    assert max(text.get_window_extent().width for text in ax.texts) < diameter


def test_a_bar_of_counts_has_whole_numbers():
    for values, whole in (
        ([35, 36, 35, 36, 37], True),
        ([35.0, 36.0, 35.0, 36.0, 36.0], True),
        ([0.1, 0.2, 0.3, 0.4, 0.5], False),
    ):
        figure = plotting.topology(topologies.ring(5), values=values).figure
        figure.canvas.draw()
        ticks = figure.axes[1].get_yticks()
        assert (ticks == np.rint(ticks)).all() == whole


def test_four_hundred_agents_can_be_told_apart():
    ax = plotting.topology(topologies.random_geometric(400, 0.09, seed=0))
    ax.figure.canvas.draw()
    nodes = ax.collections[-1]
    places = ax.transData.transform(nodes.get_offsets()) * 72 / ax.figure.dpi
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)[np.triu_indices(400, 1)]
    assert (apart < np.sqrt(nodes.get_sizes()[0])).mean() < 1e-3
    ax = plotting.topology(topologies.erdos_renyi(400, 0.03, seed=0))
    ax.figure.canvas.draw()
    grey = np.asarray(ax.figure.canvas.buffer_rgba())[..., 0]
    assert grey.std() > 25  # no disc of one shade
    assert (grey > 240).mean() > 0.5


def test_degrees_and_spectrum_take_graphs_schedules_and_several():
    ring, star = topologies.ring(8), topologies.star(5)
    changing = topologies.RandomEdges(star, 0.5, seed=0)
    heights = [
        [bar.get_height() for bar in plotting.degrees(item).patches] for item in (star, topologies.Static(star), changing)
    ]
    assert heights[0] == heights[1] == heights[2] == [0, 4, 0, 0, 1]
    ax = plotting.degrees({"ring": ring, "star": changing})
    assert [bar.get_height() for bar in ax.patches] == [0, 0, 8, 0, 4, 0, 0, 1]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ring", "star"]
    matrix = topologies.metropolis(ring)
    moduli = [
        plotting.spectrum(item).get_lines()[0].get_ydata() for item in (matrix, matrix.toarray(), ring, topologies.Static(ring))
    ]
    for other in moduli[1:]:
        np.testing.assert_array_equal(other, moduli[0])
    of_round = plotting.spectrum(changing, round=3).get_lines()[0].get_ydata()
    expected = np.abs(np.linalg.eigvalsh(changing.weights(changing.key(3)).toarray()))
    np.testing.assert_allclose(np.sort(of_round), np.sort(expected), atol=1e-12)


def test_frames_of_an_animation_show_the_edges_of_their_rounds(tmp_path):
    schedule = topologies.Periodic([nx.Graph([(0, 1), (1, 2), (2, 3)]), nx.empty_graph(4)])
    path = plotting.animate(schedule, history(rows=4), tmp_path / "run.gif", y="objective")
    dark = []
    with Image.open(path) as image:
        for frame in range(4):
            image.seek(frame)
            picture = np.asarray(image.convert("L"), dtype=int)[40:, : image.width // 2 - 60]  # the network without title
            dark.append(int((picture < 200).sum()))
    assert min(dark[0], dark[2]) > 1.1 * max(dark[1], dark[3]) > 0


@pytest.mark.parametrize(
    "schedule",
    [
        topologies.Mobile(5, 0.5, 0.1, seed=0),
        topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 0)]), weights=topologies.push),
        topologies.Static(topologies.ring(60)),
    ],
    ids=["moving", "directed", "without names"],
)
def test_kinds_of_networks_are_animated(tmp_path, schedule):
    with Image.open(plotting.animate(schedule, history(rows=3), tmp_path / "run.gif", y="objective")) as image:
        assert image.n_frames == 3
        assert (np.asarray(image.convert("L"))[40:, : image.width // 2 - 60] < 200).sum() > 100


@pytest.mark.slow
def test_a_frame_draws_no_axis_again(tmp_path, monkeypatch):
    drawn = []
    draw = matplotlib.axis.Axis.draw
    monkeypatch.setattr(matplotlib.axis.Axis, "draw", lambda axis, *rest: drawn.append(axis) or draw(axis, *rest))
    counts = []
    for rows in (2, 20):
        drawn.clear()
        plotting.animate(topologies.Static(topologies.ring(5)), history(rows=rows), tmp_path / "run.gif", y="objective")
        counts.append(len(drawn))
    assert counts[0] == counts[1] > 0
