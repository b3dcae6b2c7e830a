"""Layers split over workers: how seconds are predicted from measured ones, and what the paper says of it."""

import csv
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from consensus.history import History
from experiments import layer_parallel
from experiments.shared import layer_passes
from experiments.shared.layer_passes import CPU, EMPTY, HERE, NETWORK, ON, SERIAL, STATE, Sizes
from experiments.shared.timing import timed

SIZES = Sizes(64, 8, 50, 2)


@pytest.fixture
def history():
    found = History()
    for noise in (1.0, 3.0, 1.5):  # of other work on the machine
        clock = {SERIAL: 0.2 * noise, f"{ON}1": 0.8 * noise, f"{ON}2": 0.5 * noise}
        found.append(
            clock | {f"{SERIAL}{CPU}": 0.2, f"{ON}1{CPU}": 0.8, f"{ON}2{CPU}": 0.4} | {EMPTY: 1e-5 * noise, STATE: 3e-5 * noise}
        )
    return found


def test_machines_have_the_measured_speed_and_pipes(history):
    clock, busy = layer_passes.measured(history)
    assert clock == pytest.approx({0: 0.3, 1: 1.2, 2: 0.75})  # medians
    assert busy == {0: 0.2, 1: 0.8, 2: 0.4}
    here = layer_passes.clusters(history, SIZES)[HERE]
    assert here.latency == pytest.approx(1e-5)
    assert here.bandwidth == pytest.approx(50 * 8 * 8 / 2e-5)
    assert here.flops == pytest.approx(6 * 50 * SIZES.network().parameters / 0.2)
    silent = {name: history[name] if CPU not in name else np.full(3, math.nan) for name in history}
    assert layer_passes.serial(silent) == pytest.approx(0.3)


def test_predictions_take_the_best_number_of_levels_and_say_where_it_pays(history):
    cluster = layer_passes.clusters(history, SIZES)[NETWORK]
    seconds = layer_passes.predicted(cluster, SIZES)
    assert list(seconds) == [1, 2, 4, 8, 16]
    for workers, there in seconds.items():
        levels = range(2, SIZES.split(workers, levels=None).levels + 1)
        assert there == min(cluster.seconds(SIZES.split(workers, levels=count).load(50))[0] for count in levels)
    assert layer_passes.paying(0.2, {1: 0.8, 2: 0.4, 4: 0.19, 8: 0.1}) == (4, 8, 2.0)
    assert layer_passes.paying(0.2, {1: 0.8, 2: 0.2}) == (None, 2, 1.0)


def test_messages_are_timed_through_another_process(forked):
    with layer_passes.echoing() as there_and_back:
        assert timed(there_and_back, bytes(10**6))[0] > 0


def test_processors_are_read_of_processes():
    before, since = layer_passes.processor(os.getpid()), sum(os.times()[:2])
    while sum(os.times()[:2]) - since < 0.05:
        pass
    assert math.isnan(before) or 0.03 < layer_passes.processor(os.getpid()) - before < 5
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    assert math.isnan(layer_passes.processor(ended.pid))


def test_the_paper_says_how_exact_it_is_and_where_it_pays(tmp_path):
    accuracy = [(levels, cycles, 1 / (levels * 100.0**cycles), 0, 10.0**-cycles) for levels in (2, 5) for cycles in range(4)]
    pays = [(2, HERE, 8, 64, 4.0), (1, HERE, 4, 64, 8.0), (2, NETWORK, "", 64, 0.5), (1, NETWORK, 4, 32, 6.76)]
    ends = [("exact", 1, 0.1, 0.0), ("one", 1, 0.1, 7e-7)]
    for name, columns, rows in (
        ("accuracy", ("levels", "V-cycles", layer_parallel.FORWARD, layer_parallel.ADJOINT, layer_parallel.ERROR), accuracy),
        ("table", ("V-cycles", "cluster", "pays from, workers", "best, workers", "speed-up"), pays),
        ("training", ("gradients", "objective", "test error", "distance of the parameters"), ends),
    ):
        with open(tmp_path / f"{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows([columns, *rows])
    found = layer_parallel.in_the_paper(tmp_path)
    assert (found["layers.two.fall"], found["layers.deepest.fall"], found["layers.levels"]) == ("100", "100", "5")
    assert found["layers.two.error"] == r"$1 \times 10^{-1}$"
    assert (found["layers.cycles.pays"], found["layers.cycles.gain"]) == ("no number of", "0.5")
    assert (found["layers.one.pays"], found["layers.one.best"], found["layers.one.gain"]) == ("4", "32", "6.8")
    assert found["layers.away"] == r"$7 \times 10^{-7}$"
