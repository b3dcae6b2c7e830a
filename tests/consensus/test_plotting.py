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


def test_an_unknown_column_lists_the_known():
    with pytest.raises(KeyError, match="no column 'loss'; there are round, objective"):
        plotting.convergence({"run": history()}, y="loss")


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
