"""The simulated clock: order of events, blocks, absences, traces, checkpoints, counts, and solvers with rounds under it."""

import itertools
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pytest
import scipy.stats

import consensus
import topologies
from consensus import Minibatches
from consensus.asynchronous import (
    ADPSGD,
    ASYSONATA,
    RASGP,
    AsynchronousDGD,
    AsynchronousSolver,
    OverlapSGP,
    Simulated,
    blocks,
)
from consensus.asynchronous.timetable import Timetable
from consensus.solvers import DGD, NEXT, Gossip, Needs
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.problems import AGENTS, CIRCLE, problem
from tests.helpers.refusals import refusals
from tests.helpers.unlike_quadratics import GRAPH, LATE, QUADRATICS, STEPS, events

CLOCKS = {
    "uniform": Simulated((0.5, 1.5), (0.0, 3.0), 0.2, seed=3),
    "exponential": Simulated(scipy.stats.expon(0.1, 1.0), scipy.stats.expon(), 0.2),
    "heavy": Simulated(scipy.stats.pareto(2.0), scipy.stats.lognorm(1.0), 0.1),
    "slow": Simulated([1.0] * 7 + [10.0], 0.5),
    "lockstep": Simulated(1.0, (0.0, 10.0), 0.3),
}


def run(simulated, rounds=30, whole=QUADRATICS, solver=STEPS, graph=GRAPH, **options):
    return consensus.solve(whole, graph, solver, rounds=rounds, engine=simulated, **options)


@pytest.mark.parametrize("clock", CLOCKS)
def test_blocks_and_single_agents_give_the_same_bits(clock):
    """Also whether agents are seen by a plain loop over all events in the order of time."""
    together, alone = (events(STEPS, CLOCKS[clock]) for _ in range(2))
    alone.blocks._single = True
    sizes = []
    while together.done < 240:
        sizes.append(len(together.advance(240 - together.done)))
    while alone.done < 240:
        assert len(alone.advance(1)) == 1
    assert together.state.w.tobytes() == alone.state.w.tobytes()
    assert together.number == alone.number
    assert together.lost == alone.lost
    assert max(sizes) > 1


@pytest.mark.parametrize("clock", CLOCKS)
def test_wakes_are_in_the_order_of_time_and_messages_are_read_when_they_have_arrived(clock):
    running, last = events(STEPS, CLOCKS[clock]), 0.0
    for _ in range(200):
        (agent,) = running.advance(1)
        now = running.clock[agent]
        assert now >= last
        assert all(entry[0] > now for entry in running.inbox[agent])
        last = now


GOLDEN = """\
5 0.519003 [-1] 1; 7 0.668448 [-1] 0; 4 0.704469 [-1, -1] 0; 2 0.77797 [-1] 0; 6 0.985065 [-1, -1] 0; 0 1.125095 [-1] 0;
1 1.270141 [-1] 0; 7 1.286348 [-1] 1; 3 1.475034 [0] 0; 4 1.492583 [0, -1] 0; 5 1.685578 [-1] 2; 1 1.882068 [0] 0;
6 2.079188 [0, -1] 1; 7 2.238298 [-1] 1; 4 2.463827 [0, -1] 0; 0 2.522309 [-1] 1; 1 2.571166 [0] 0; 5 2.699027 [1] 3;
3 2.859601 [0] 0; 1 3.231121 [0] 0; 7 3.312943 [-1] 1; 6 3.42035 [0, -1] 1; 4 3.481628 [0, 1] 0; 3 3.591571 [0] 0;
5 3.659066 [2] 3; 0 3.797995 [0] 1; 2 4.0 [2] 1; 1 4.16309 [0] 0"""


def test_events_with_losses_and_an_absence_are_those_of_the_log():
    """Agent, time, the newest message read from each neighbour, how many of its own were lost: the same on every machine."""
    running = events(STEPS, Simulated((0.5, 1.5), (0.0, 3.0), 0.3, away={2: [(1.0, 4.0)]}, seed=7))
    log = []
    while running.done < 28:
        (i,) = running.advance(1)
        log.append(f"{i} {round(running.clock[i], 6)} {running.newest[i][: running.sources[i]]} {running.lost[i]}")
    assert log == GOLDEN.replace("\n", " ").split("; ")


def test_a_slow_agent_wakes_less_often_and_the_clock_goes_by_the_others():
    history = run(Simulated([1.0] * 7 + [10.0], (0.0, 2.0)), rounds=100).history
    assert history["wakes"][-1] == 800
    assert history["clock"][-1] == pytest.approx(800 / 7.1, abs=2)


def test_staleness_is_the_greatest_age_of_a_message_when_it_was_read():
    np.testing.assert_allclose(
        run(Simulated(delay=2.5), record_every=1).history["staleness"][5:], 3.0
    )  # read at the next whole second
    assert run(Simulated(delay=2.5)).history["staleness"][1] == 1.0  # of the start
    assert run(LATE, rounds=300).history["staleness"].max() > 10  # a lost one in between


def test_staleness_counts_from_one_row_to_the_next():
    found = run(Simulated(away={0: [(2.5, 20.5)]}), rounds=40, record_every=1).history["staleness"]
    assert found.max() > 15  # of the last message before agent 0 was away
    assert found[-10:].max() <= 1.0


def test_an_agent_that_is_away_wakes_when_it_returns():
    running = events(STEPS, Simulated(away={3: [(4.5, 20.0), (25.0, 26.0)]}))
    times = []
    while running.done < 8 * 30:
        times += [running.clock[i] for i in running.advance(1) if i == 3]
    np.testing.assert_array_equal(times[:11], [1, 2, 3, 4, 20, 21, 22, 23, 24, 26, 27])
    running = events(STEPS, Simulated(away={3: [(0.0, 2.0), (4.0, 6.0)]}))  # ends of an absence: away at first, back at last
    times = []
    while running.done < 8 * 9:
        times += [running.clock[i] for i in running.advance(1) if i == 3]
    np.testing.assert_array_equal(times[:5], [2, 3, 6, 7, 8])


def test_all_counts_are_by_hand():
    history = run(Simulated(loss=0.25), rounds=50).history
    arcs, size = GRAPH.number_of_edges(), 2 * QUADRATICS.parameters
    assert history["messages"][-1] == 50 * arcs
    assert history["floats"][-1] == 50 * arcs * size
    assert history["bytes"][-1] == 8 * 50 * arcs * size
    assert history["exchanges"][-1] == 50
    assert history["gradients"][-1] == 50
    assert history["solves"][-1] == 50
    assert 0.15 < history["lost"][-1] / history["messages"][-1] < 0.35
    running = events(STEPS, Simulated())
    for _ in range(8):
        running.advance(1)
    degrees = [GRAPH.out_degree(i) for i in range(8)]
    arrived = [sum(j < i for j in GRAPH.predecessors(i)) for i in range(8)]  # the others are read at the next wake
    np.testing.assert_array_equal(running.counts()["traffic"], 8 * size * np.add(degrees, arrived))


def test_counts_do_not_depend_on_how_many_blocks_are_kept(monkeypatch):
    whole = run(CLOCKS["uniform"])
    monkeypatch.setattr(blocks, "_KEPT", 3)
    few = run(CLOCKS["uniform"])
    for name in ("gradients", "solves", "iterations"):
        np.testing.assert_array_equal(few.history[name], whole.history[name])
    assert few.w.tobytes() == whole.w.tobytes()


class Late(NamedTuple):
    """A state, and a message: the number before the wake."""

    w: np.ndarray
    wakes: np.ndarray


class Sent(NamedTuple):
    w: np.ndarray


@dataclass(frozen=True)
class TellsWhatItWas(AsynchronousSolver):
    """Begins with a gradient, counts its wakes, and sends a part of its old state."""

    needs = Needs(mixing="row stochastic", wakes=True)

    def init(self, problem, arcs, w):
        problem.gradient(w)
        return Late(w, np.zeros(len(w), int)), Sent(w)

    def wake(self, problem, arcs, state, mailbox):
        assert (mailbox.w <= state.w[:, None]).all()
        return Late(state.w + 1, state.wakes + 1), Sent(state.w)


def test_a_message_is_what_was_sent_even_if_it_is_a_part_of_a_state():
    running = events(TellsWhatItWas(), Simulated(delay=2.5), start=np.zeros((8, 5)))
    for _ in range(8 * 8):
        running.advance(1)
    newest = [running.mailbox.w[i, : running.sources[i], 0].tolist() for i in range(8)]
    assert newest == [[4.0] * running.sources[i] for i in range(8)]  # sent at 5, where an agent had woken four times before


def test_the_start_is_counted_once_in_a_resumed_run(tmp_path):
    whole = run(Simulated(), 8, solver=TellsWhatItWas(), record_every=1)
    run(Simulated(), 3, solver=TellsWhatItWas(), record_every=1, checkpoint=tmp_path / "run")
    rest = run(Simulated(), 8, solver=TellsWhatItWas(), record_every=1, resume=tmp_path / "run")
    np.testing.assert_array_equal(rest.history["gradients"], whole.history["gradients"])
    np.testing.assert_array_equal(whole.history["gradients"], 1)


def test_a_message_that_is_sent_again_takes_its_delay_each_time():
    schedule = topologies.Static(GRAPH, weights=topologies.push)
    times = Timetable.of(Simulated(delay=(1.0, 2.0), loss=0.5, seed=4), schedule)
    lost = []
    for agent, number in itertools.product(range(8), range(40)):
        waits, again = times.until_arrived(agent, number)
        drawn = times.of_wake(agent, number)
        np.testing.assert_allclose(waits, np.multiply(drawn.delays[number - drawn.first], np.add(again, 1)))
        lost += again
    assert 0.8 < np.mean(lost) < 1.2  # geometric: as many losses as messages on average
    assert min(lost) == 0


SOLVERS = {
    "ASYSONATA": ASYSONATA(FullLinearization(120.0), 0.1, batch=3),
    "RASGP": RASGP(0.001, batch=3),
    "OverlapSGP": OverlapSGP(0.01, batch=3),
    "AsynchronousDGD": AsynchronousDGD(0.01, batch=3),
    "ADPSGD": ADPSGD(0.01, batch=3),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_every_wake_has_a_batch_of_its_own(name, monkeypatch):
    whole, solver, taken = problem(scheme="iid"), SOLVERS[name], [[] for _ in range(AGENTS)]
    gradient = type(whole).average_gradient

    def noted(self, w, batch=None):
        if batch is not None:
            taken[int(self.rows[0])].append((len(self.rows), batch.indices[0].tolist()))
        return gradient(self, w, batch)

    monkeypatch.setattr(type(whole), "average_gradient", noted)
    network = topologies.ring(AGENTS) if name in ("ADPSGD", "AsynchronousDGD") else CIRCLE
    consensus.solve(whole, network, solver, rounds=5, engine=Simulated((0.5, 1.5)), record_every=5)
    for agent, own in enumerate(taken):
        assert len(own) >= 3
        assert own == [(1, Minibatches(3).at(whole, number).indices[agent].tolist()) for number in range(len(own))]


@pytest.mark.parametrize("name", SOLVERS)
def test_a_batch_is_checked_before_anything_runs(name):
    with pytest.raises(ValueError, match="size of Minibatches must be at most 10, the samples of the largest shard; got 11"):
        replace(SOLVERS[name], batch=11).check(problem(scheme="iid"))


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("clock", ["uniform", "heavy"])
def test_a_run_goes_on_from_a_checkpoint_with_equal_bits(tmp_path, clock, batch):
    options = {"whole": problem(scheme="iid"), "graph": CIRCLE, "solver": ASYSONATA(FullLinearization(180.0), 0.1, batch=batch)}
    whole = run(CLOCKS[clock], 40, record_every=5, **options)
    path = tmp_path / "run"
    run(CLOCKS[clock], 17, record_every=5, checkpoint=path, every=17, **options)
    rest = run(CLOCKS[clock], 40, record_every=5, resume=path, **options)
    assert rest.w.tobytes() == whole.w.tobytes()
    names = [name for name in whole.history if name != "seconds"]
    for name in names:
        np.testing.assert_array_equal(rest.history[name], whole.history[name], err_msg=name)


def test_the_same_seed_gives_the_same_bits_and_another_one_others():
    first, second, other = (run(Simulated((0.5, 1.5), (0.0, 3.0), 0.2, seed=seed)).w.tobytes() for seed in (1, 1, 2))
    assert first == second != other


def test_float32_stays():
    rng = np.random.default_rng(0)
    shards = consensus.partition(rng.standard_normal((60, 4)).astype(np.float32), rng.standard_normal(60), AGENTS)
    whole = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    for surrogate in (FullLinearization(180.0), PartialLinearization(3.0)):
        running = events(ASYSONATA(surrogate, 0.2), CLOCKS["uniform"], whole, CIRCLE)
        for _ in range(20):
            running.advance(4)
        assert {value.dtype for value in running.state if value.dtype.kind == "f"} == {np.dtype(np.float32)}


def test_times_are_read_from_a_file(tmp_path):
    times = tmp_path / "compute.csv"
    times.write_text("agent,seconds\n" + "".join(f"{i},{s}\n" for i in range(8) for s in ((1, 2) if i else (4,))))
    delays = tmp_path / "delay.csv"
    delays.write_text("source,target,seconds\n" + "".join(f"{j},{i},0.5\n" for j, i in GRAPH.edges))
    running = events(STEPS, Simulated(times, delays))
    first = {0: [], 1: []}
    for _ in range(60):
        for i in running.advance(1):
            first.get(i, []).append(running.clock[i])
    assert first[0][:3] == [4.0, 8.0, 12.0]
    assert first[1][:4] == [1.0, 3.0, 4.0, 6.0]
    times.write_text("agent,seconds\n0,1\n")
    with pytest.raises(ValueError, match=r"compute: .*compute.csv has no row for agent 1"):
        run(Simulated(times))
    delays.write_text("source,seconds\n0,1\n")
    with pytest.raises(ValueError, match=r"must have the columns source, target, seconds; it lacks \['target'\]"):
        run(Simulated(delay=delays))
    with pytest.raises(FileNotFoundError, match=r"compute: .*none.csv must be a CSV file with the columns agent, seconds"):
        run(Simulated(tmp_path / "none.csv"))
    hidden = np.ma.masked_array(np.ones((8, 8)), np.eye(8, k=1))
    with pytest.raises(ValueError, match=r"delay has 7 masked entries, at "):
        run(Simulated(delay=hidden))
    for content, words in (
        (b"", "must be a CSV file"),
        (b"\xff\xfe,seconds\n", "must be a CSV file"),
        (b"agent,seconds\n0,x\n", ">= 0"),
    ):
        times.write_bytes(content)
        with pytest.raises(ValueError, match=rf"compute: .*compute.csv.*{words}"):
            run(Simulated(times))


def test_a_trace_of_delays_may_have_zeros(tmp_path):
    trace = tmp_path / "delay.csv"
    trace.write_text("source,target,seconds\n" + "".join(f"{j},{i},0\n" for j, i in GRAPH.edges))
    assert run(Simulated(delay=trace)).w.tobytes() == run(Simulated(delay=0.0)).w.tobytes()
    trace.write_text("source,target,seconds\n" + "".join(f"{j},{i},-1\n" for j, i in GRAPH.edges))
    with pytest.raises(ValueError, match=r"delay: the seconds in .* must be numbers >= 0"):
        run(Simulated(delay=trace))


class Drawn:
    """A distribution of one value."""

    def __init__(self, value):
        self.value = value

    def support(self):
        return 0.0, np.inf

    def rvs(self, size, random_state):
        return np.full(size, self.value)


def test_delays_can_differ_by_arc():
    delay = np.zeros((8, 8))
    delay[0, 1] = 3.0
    running = events(STEPS, Simulated(delay=delay))
    for _ in range(3 * 8):
        running.advance(1)
    assert running.newest[1][running.arcs.sources[1].tolist().index(0)] == -1
    assert running.newest[2] == [2, -1]


# Files of times --------------------------------------------------------------------------------------------------------


def trace(path, seconds):
    path.write_text("agent,seconds\n" + "".join(f"{agent},{seconds}\n" for agent in range(QUADRATICS.agents)))
    return path


@pytest.mark.parametrize("name", ["compute", "delay", "loss", "begin", "away", "seed", "file"])
def test_a_run_is_not_resumed_under_another_clock(tmp_path, name):
    other = {"compute": (0.5, 2.0), "delay": (0.0, 9.0), "loss": 0.3, "begin": 1.0, "away": {1: [(2.0, 3.0)]}, "seed": 4}
    given, path = {"compute": (0.5, 1.5), "delay": (0.0, 3.0), "loss": 0.2}, tmp_path / "run"
    if name == "file":
        given["compute"] = trace(tmp_path / "times.csv", 1.0)
    run(Simulated(**given), 10, checkpoint=path)
    if name == "file":
        trace(tmp_path / "times.csv", 2.0)
    else:
        given[name] = other[name]
    with pytest.raises(ValueError, match=r"run is a checkpoint of another run: clock: Simulated with seed 0 \["):
        run(Simulated(**given), 20, resume=path)


def test_a_file_of_times_may_move(tmp_path):
    clock = Simulated(trace(tmp_path / "times.csv", 0.7), (0.0, 3.0))
    run(clock, 10, checkpoint=tmp_path / "run")
    moved = (tmp_path / "times.csv").rename(tmp_path / "moved.csv")
    moved = Simulated(moved, (0.0, 3.0))
    np.testing.assert_array_equal(run(moved, 20, resume=tmp_path / "run").w, run(moved, 20).w)


test_refusals = refusals(
    (lambda: run(Simulated(compute=Drawn(0.0))), ValueError,
     "compute of agent 0 must be finite seconds > 0; drawn were 0 to 0"),
    (lambda: run(Simulated(compute=Drawn(np.inf))), ValueError,
     "compute of agent 0 must be finite seconds > 0; drawn were inf to inf"),
    (lambda: run(Simulated(delay=Drawn(np.inf))), ValueError,
     "delay of a message of agent 0 must be finite: give loss= for messages that never arrive"),
    (lambda: run(Simulated(away={8: [(1.0, 2.0)]})), ValueError, "away has agent 8, and there are 8"),
    (lambda: run(Simulated(compute=0.0)), ValueError, "compute must be > 0; it is 0 for agent 0"),
    (lambda: run(Simulated(compute=-1.0)), ValueError, "compute must be .*>= 0.*got -1"),
    (lambda: run(Simulated(compute=[1.0, 2.0])), ValueError, "compute must have an entry for each of the 8 agents; got 2"),
    (lambda: run(Simulated(compute=(2.0, 1.0))), ValueError, "high of compute must be .*>= 2"),
    (lambda: run(Simulated(compute=scipy.stats.norm())), ValueError, "compute must be a distribution of numbers >= 0"),
    (lambda: run(Simulated(delay=-0.5)), ValueError, "delay must be .*>= 0.*got -0.5"),
    (lambda: run(Simulated(delay=np.ones(8))), ValueError, r"delay must be an array \(source, target\) of shape \(8, 8\)"),
    (lambda: run(Simulated(delay=scipy.stats.norm())), ValueError, "delay must be a distribution of numbers >= 0"),
    (lambda: run(Simulated(loss=1.0)), ValueError, "loss must be numbers below 1"),
    (lambda: run(Simulated(loss=(0.1, 0.2))), ValueError, "loss must be numbers below 1"),
    (lambda: run(Simulated(begin=np.inf)), ValueError, "begin must be"),
    (lambda: run(Simulated(away={3: [(1.0, np.inf)]})), ValueError, "agent 3 never wakes again after 1"),
    (lambda: run(Simulated(away={9: [(1.0, 2.0)]})), ValueError, "away has agent 9, and there are 8"),
    (lambda: run(Simulated(away={3: [(2.0, 1.0)]})), ValueError, "with 0 <= from < to"),
    (lambda: run(Simulated(seed=-1)), ValueError, "seed must be"),
    (lambda: run(Simulated(compute="fast")), (TypeError, FileNotFoundError), "fast"),
    (lambda: run(Simulated(compute={3: 1.0})), (TypeError, FileNotFoundError), "compute must be a number, a pair"),
    (lambda: run(Simulated(away=[1, 2])), (TypeError, FileNotFoundError), "away must be a mapping"),
    (lambda: run(Simulated(away={3: [4.0]})), (TypeError, FileNotFoundError), r"must be pairs \(from, to\)"),
)  # fmt: skip


# Solvers with rounds under the simulated clock.


def test_a_round_lasts_as_long_as_its_slowest_agent_and_message():
    whole, ring = problem(), topologies.ring(AGENTS)
    delay = np.full((AGENTS, AGENTS), 0.25)
    delay[2, 3] = 2.0
    descent = DGD(0.02)
    plain = consensus.solve(whole, ring, descent, rounds=5)
    timed = consensus.solve(
        whole, ring, descent, rounds=5, record_every=1, engine=Simulated([1.0, 3.0, 1.0, 1.0, 1.0, 1.0], delay)
    )
    assert timed.w.tobytes() == plain.w.tobytes()
    np.testing.assert_allclose(timed.history["clock"], 5.0 * np.arange(6))
    np.testing.assert_array_equal(timed.history["wakes"], AGENTS * np.arange(6))
    several = consensus.solve(whole, ring, Gossip(descent, 3), rounds=5, record_every=1, engine=Simulated(1.0, 0.25))
    np.testing.assert_allclose(several.history["clock"], 1.75 * np.arange(6))
    assert repr(timed.solver) == repr(descent)


def test_a_lost_message_of_a_round_is_sent_again():
    history = consensus.solve(
        problem(),
        topologies.ring(AGENTS),
        DGD(0.02),
        rounds=200,
        engine=Simulated(1.0, 0.5, loss=0.5),
        record_every=200,
    ).history
    assert 0.8 < history["lost"][-1] / (200 * 2 * AGENTS) < 1.2  # one half, one quarter, ...
    assert history["clock"][-1] > 200 * (1 + 2 * 0.5)


def test_rounds_under_the_clock_go_on_from_a_checkpoint(tmp_path):
    whole, ring, solver = problem(), topologies.ring(AGENTS), NEXT(PartialLinearization(1.0), 0.3)
    clock = Simulated((0.5, 1.5), (0.0, 1.0), 0.2)
    once = consensus.solve(whole, ring, solver, rounds=12, engine=clock)
    consensus.solve(whole, ring, solver, rounds=5, engine=clock, checkpoint=tmp_path / "run")
    again = consensus.solve(whole, ring, solver, rounds=12, engine=clock, resume=tmp_path / "run")
    assert again.w.tobytes() == once.w.tobytes()
    np.testing.assert_array_equal(again.history["clock"], once.history["clock"])


def test_networks_that_change_are_refused():
    changing = topologies.RandomEdges(topologies.ring(AGENTS), 0.5, seed=0)
    with pytest.raises(ValueError, match="Simulated needs a network that does not change"):
        consensus.solve(problem(), changing, DGD(0.02), rounds=1, engine=Simulated())
