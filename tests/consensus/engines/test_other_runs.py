"""A checkpoint is resumed by the run that wrote it alone: what differs is named."""

import os
import threading
from dataclasses import dataclass, field

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.checkpoints.checkpoint import Checkpoint, check_fits
from consensus.solvers import DGD, NEXT, GradientTracking
from consensus.surrogates import FullLinearization
from tests.helpers.checkpoints import GRAPH, run
from tests.helpers.engine_harness import assert_same
from tests.helpers.problems import data

NEXT_FULL, SWAP = NEXT(FullLinearization(1.0), 0.5), {0: 1, 1: 0}


def moved():
    """The shards with one feature one rounding away."""
    X, y = data()
    X = X.copy()
    X[7, 2] = np.nextafter(X[7, 2], 9)
    return consensus.partition(X, y, 6)


@pytest.mark.parametrize(
    ("changed", "differing"),
    [
        ({"model": consensus.Linear(4, outputs=1, bias=False), "start": np.zeros(4)}, ["model", "start"]),
        ({"loss": consensus.Huber(1.0)}, ["loss"]),
        ({"regularizer": consensus.L2(0.2)}, ["regularizer"]),
        ({"regularizer": consensus.ElasticNet(0.0, 0.1), "solver": NEXT_FULL}, ["regularizer", "solver"]),
        ({"reduction": "sum"}, ["reduction"]),
        ({"shards": moved()}, ["data"]),
        ({"shards": consensus.partition(*data(), 6, seed=1)}, ["data"]),
        ({"solver": GradientTracking(0.06)}, ["solver"]),
        ({"solver": GradientTracking(0.05, order="cta")}, ["solver"]),
        ({"solver": DGD(0.05)}, ["solver"]),
        ({"network": topologies.RandomEdges(GRAPH, 0.5, seed=1)}, ["network", "mixing matrices"]),
        ({"network": topologies.RandomEdges(GRAPH, 0.6, seed=0)}, ["network", "mixing matrices"]),
        ({"network": topologies.Static(GRAPH)}, ["network", "mixing matrices"]),
        ({"start": np.full(5, 1e-300)}, ["start"]),
    ],
)
def test_another_run_is_refused_and_the_difference_is_named(changed, differing, tmp_path):
    path = tmp_path / "run.ckpt"
    run(checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is a checkpoint of another run") as caught:
        run(rounds=9, resume=path, checkpoint=path, **changed)
    message = str(caught.value)
    assert str(path) in message
    assert [part.split(":")[0] for part in message.split("another run: ")[1].split("; ")] == differing
    assert path.read_bytes() == before
    assert_same(run(rounds=9, resume=path), run(rounds=9))


@pytest.mark.parametrize(
    "network",
    [
        lambda names: topologies.Periodic([GRAPH, nx.relabel_nodes(topologies.path(6), names)]),
        lambda names: topologies.RandomEdges(nx.relabel_nodes(GRAPH, names), 1e-6, seed=0),
    ],
    ids=["a later graph", "rare edges"],
)
def test_networks_that_look_alike_are_told_apart(network, tmp_path):
    mine, other, path = network({}), network(SWAP), tmp_path / "run.ckpt"
    run(network=mine, checkpoint=path)
    assert str(mine) == str(other)  # and the first matrices are the same
    with pytest.raises(ValueError, match=r"another run: network: .*; mixing matrices: "):
        run(network=other, resume=path)


@dataclass(frozen=True)
class Strayed:
    """A ring without edges in round ``at``, which is declared not to matter: it shows in the matrices alone."""

    at: int = field(repr=False, compare=False)
    agents: int = 6

    def key(self, round):
        return int(round == self.at)

    def weights(self, key):
        return topologies.metropolis(nx.empty_graph(6) if key else GRAPH)


def test_matrices_of_the_first_eight_rounds_are_compared(tmp_path):
    path = tmp_path / "run.ckpt"
    run(network=Strayed(-1), checkpoint=path)
    for at in (0, 7):
        with pytest.raises(ValueError, match=r"another run: mixing matrices: \w+ there, \w+ here$"):
            run(network=Strayed(at), resume=path)
    assert run(network=Strayed(8), resume=path).rounds == 6


class Silent(consensus.Linear):
    """A linear model with a factor, which its text does not show."""

    def __init__(self, factor):
        super().__init__(4)
        self.factor = factor

    def _forward(self, w, x):
        return super()._forward(w, self.factor * x)


@pytest.mark.parametrize(
    ("named", "mine", "other"),
    [
        ("model", Silent(1.0), Silent(2.0)),
        ("solver", DGD(lambda round: 0.1), DGD(lambda round: 0.2)),
        ("regularizer", *(consensus.Box(-np.ones(5), np.full(5, 1 + x)) for x in (0, 1e-12))),
    ],
)
def test_settings_that_print_alike_are_told_apart(named, mine, other, tmp_path):
    path, more = tmp_path / "run.ckpt", {"solver": NEXT_FULL} if named == "regularizer" else {}
    run(checkpoint=path, **more, **{named: mine})
    with pytest.raises(ValueError, match=rf"another run: {named}: (.*) \[\w{{16}}\] there, \1 \[\w{{16}}\] here$"):
        run(resume=path, **more, **{named: other})


def test_an_attribute_that_cannot_be_compared_is_named(tmp_path):
    locked = Silent(1.0)
    locked.parts = {"lock": threading.Lock()}
    with pytest.raises(TypeError, match=r"Silent\.parts\['lock'\] cannot be compared with another run's .*__getstate__"):
        run(model=locked, checkpoint=tmp_path / "run.ckpt")
    assert os.listdir(tmp_path) == []


def test_functions_are_known_by_their_gradients(tmp_path):
    def solve(centre, rule, **options):
        problem = consensus.Problem.from_functions(
            lambda w: np.square(w - centre).sum(axis=1) / 2, lambda w: w - centre, agents=6, parameters=2
        )
        return consensus.solve(problem, GRAPH, DGD(rule), **options)

    path = tmp_path / "run.ckpt"  # a lambda prints with its address, another one each time
    solve(1.0, lambda round: 0.1, rounds=3, checkpoint=path)
    same = solve(1.0, lambda round: 0.1, rounds=5, resume=path)
    np.testing.assert_array_equal(same.w, solve(1.0, lambda round: 0.1, rounds=5).w)
    with pytest.raises(ValueError, match="another run: data: "):
        solve(1.5, lambda round: 0.1, rounds=5, resume=path)


def test_a_property_of_only_one_of_both_runs_is_a_difference():
    kept = Checkpoint({"round": 3}, consensus.History(), {}, 0.0, {"solver": "a", "network": "b"})
    for ours, said in (
        ({"solver": "a"}, "network: b there, None"),
        (kept.fingerprint | {"start": "c"}, "start: None there, c"),
    ):
        with pytest.raises(ValueError, match=rf"run\.ckpt is a checkpoint of another run: {said} here"):
            check_fits("run.ckpt", kept, ours, 3)
    check_fits("run.ckpt", kept, dict(kept.fingerprint), 3)
