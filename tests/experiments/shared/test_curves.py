"""Figures show all that is in them: legends inside, tick labels apart, fonts that journals take."""

import io
import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest

from consensus.history import History
from experiments import convergence
from experiments.shared import curves
from experiments.shared.studies import Outcome
from tests.helpers.turns import with_slow


def outcome(x, y):
    history = History()
    for exchanges, objective in zip(x, y, strict=True):
        history.append({"exchanges": exchanges, "objective": objective})
    return Outcome(history, np.zeros((1, 2)))


@pytest.fixture
def drawn():
    """A figure as of one data set, with the curves of ``experiments.convergence`` over less than a decade."""

    def figure(last):
        canvas, axes = curves.panels(1)
        names = (*convergence.NAMES, "gradient descent, centralised", "L-BFGS, centralised, at its end")
        runs = {name: [outcome(range(last + 1), np.linspace(1, 0.3, last + 1))] for name in names}
        curves.draw(axes[0], runs, "objective")
        curves.legend(canvas, axes[0])
        canvas.draw_without_rendering()
        return canvas, axes[0]

    yield figure
    plt.close("all")


def test_the_legend_and_the_labels_of_one_panel_are_inside_the_figure(drawn):
    canvas, ax = drawn(30)
    for part in (*canvas.legends, ax.yaxis.label, ax.xaxis.label, ax.title):
        box = part.get_window_extent()
        assert box.min.min() >= 0
        assert (box.max <= canvas.bbox.size).all()


@pytest.mark.parametrize("last", with_slow([3, 8, 30, 300], 8, 30))
def test_tick_labels_do_not_overlap(drawn, last):
    canvas, ax = drawn(last)
    canvas.set_size_inches(2.6, 2.6)  # as wide as a panel of three
    canvas.draw_without_rendering()
    low, high = ax.get_xlim()
    labels = [*ax.xaxis.get_majorticklabels(), *ax.xaxis.get_minorticklabels()]
    shown = [label for label in labels if label.get_text() and low <= label.get_position()[0] <= high]
    boxes = sorted((label.get_window_extent().x0, label.get_window_extent().x1) for label in shown)
    assert len(boxes) > 1
    assert all(left[1] < right[0] for left, right in itertools.pairwise(boxes))


@pytest.mark.slow
def test_fonts_are_truetype(drawn):
    file = io.BytesIO()
    drawn(30)[0].savefig(file, format="pdf")
    assert b"/Type3" not in file.getvalue()
    assert b"/FontFile2" in file.getvalue()
