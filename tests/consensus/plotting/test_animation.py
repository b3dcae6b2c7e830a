"""Animated networks: a frame for each round, with its edges."""

import matplotlib

matplotlib.use("Agg")

import networkx as nx
import numpy as np
import pytest
from PIL import Image

import topologies
from consensus import History, plotting


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


@pytest.mark.parametrize(
    "schedule",
    [
        topologies.Mobile(5, 0.5, 0.1, seed=0),
        topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 0)]), weights=topologies.push),
        topologies.Static(topologies.ring(60)),
    ],
    ids=["moving", "directed", "without names"],
)
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
