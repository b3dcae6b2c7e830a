"""Matrices spread over workers: how seconds are predicted from measured ones, and what the paper says of it."""

import csv
import math

import numpy as np
import pytest

from consensus.history import History
from experiments import tensor_parallel
from experiments.shared import layer_passes
from experiments.shared.layer_passes import CPU, EMPTY, HERE, NETWORK, SENT, SERIAL, STATE
from experiments.tensor_parallel import Sizes, on

SIZES = Sizes(width=32, hidden=64, samples=100)
FLOPS = 100 * 32 * 64 * (6 + 4)  # the first map's features need no gradient


@pytest.fixture
def history():
    found, name = History(), on("2d", 4)
    for noise in (1.0, 3.0, 1.5):  # of other work on the machine
        clock = {SERIAL: 0.2 * noise, name: 0.1 * noise}
        found.append(clock | {SERIAL + CPU: 0.2, name + CPU: 0.05, SENT + name: 4e6, EMPTY: 1e-5 * noise, STATE: 3e-5 * noise})
    return found


def test_machines_have_the_measured_speed_and_pipes(history):
    here = tensor_parallel.clusters(history, SIZES)[HERE]
    assert here.latency == pytest.approx(1e-5)
    assert here.bandwidth == pytest.approx(100 * 32 * 8 / 2e-5)
    assert here.flops == pytest.approx(FLOPS / 0.2)
    assert tensor_parallel.seconds(history, on("2d", 4)) == pytest.approx((0.15, 0.05))
    silent = {name: history[name] if CPU not in name else np.full(3, math.nan) for name in history}
    assert layer_passes.serial(silent) == pytest.approx(0.3)


def test_predictions_are_of_workers_that_are_grids(history):
    assert [tensor_parallel.counts(split, 100) for split in ("1d", "2d", "3d")] == [
        [1, 2, 4, 8, 16, 32, 64],
        [1, 4, 16, 64],
        [1, 8, 64],
    ]
    cluster = tensor_parallel.clusters(history, SIZES)[NETWORK]
    seconds = tensor_parallel.predicted(cluster, SIZES, "3d", 8)
    assert seconds[1] == pytest.approx(0.2)  # a worker alone does what the serial pass does
    # Blocks of 400 and 800 numbers, and (32 + 1) * 8 and (64 + 1) * 4 of the maps, each of them to one other worker in a line.
    first, second = 400 + 33 * 8 + 800, 800 + 65 * 4 + 400
    numbers = 2 * first + 2 * second + 65 * 4 + 800
    adds = (800 + 33 * 8) + (400 + 65 * 4 + 800)
    wanted = 14 * 5e-5 + 2 * 8 * numbers / 1.25e9 + (FLOPS / 8) / cluster.flops + adds / (cluster.flops / 4)
    assert seconds[8] == pytest.approx(wanted, rel=1e-12)


def test_a_cube_is_ahead_of_a_line_by_more_with_more_tokens():
    few, many = tensor_parallel.gains(0.25), tensor_parallel.gains(64)
    assert few["1d"] < 1 < few["2d"]
    assert few["1d"] < tensor_parallel.CLAIMS["1d"] < many["1d"]
    assert many["2d"] < tensor_parallel.CLAIMS["2d"] < few["2d"]


def test_the_table_has_measured_bytes_beside_those_of_the_formula(history):
    table = tensor_parallel.measured_table(history, SIZES, [("2d", 4)])
    _, row = table.rows
    first, second = 800 + 33 * 16, 1600 + 65 * 8
    assert row[5:] == pytest.approx((1.0, 8 * (2 * first + 3 * second) / 1e6))


def test_the_paper_says_where_it_pays_and_how_much_a_cube_is_ahead(tmp_path):
    gains = [(0.25, 0.9, 2.1), (1, 2.071, 1.75), (64, 3.64, 1.222), ("", 2.32, 1.57)]
    pays = [
        (HERE, "1-D", 2, 8, 4.0),
        (NETWORK, "1-D", 2, 512, 16.44),
        (NETWORK, "2-D", "", 4, 0.9),
        (NETWORK, "3-D", 8, 512, 53.7),
    ]
    for name, columns, rows in (
        ("gains", ("tokens / width", "over 1-D", "over 2-D"), gains),
        ("table", ("cluster", "split", "pays from, workers", "best, workers", "speed-up"), pays),
    ):
        with open(tmp_path / f"{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows([columns, *rows])
    found = tensor_parallel.in_the_paper(tmp_path)
    assert (found["tensor.even.1d"], found["tensor.even.2d"], found["tensor.most"]) == ("2.07", "1.75", "64")
    assert (found["tensor.most.1d"], found["tensor.most.2d"]) == ("3.64", "1.22")
    assert (found["tensor.1d.pays"], found["tensor.1d.best"], found["tensor.1d.gain"]) == ("2", "512", "16.4")
    assert (found["tensor.2d.pays"], found["tensor.3d.pays"]) == ("no number of", "8")
