"""The simulated clock: order of events, blocks, absences, traces, checkpoints, counts, and solvers with rounds under it."""

import numpy as np
import pytest
import scipy.stats
from problems import AGENTS, CIRCLE, problem
from unlike_quadratics import GRAPH, LATE, QUADRATICS, STEPS, events

import consensus
from consensus.asynchronous import ASYSONATA, Simulated
from consensus.surrogates import FullLinearization, PartialLinearization

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
    blocks = []
    while together.done < 240:
        blocks.append(len(together.advance(240 - together.done)))
    while alone.done < 240:
        assert len(alone.advance(1)) == 1
    assert together.state.w.tobytes() == alone.state.w.tobytes()
    assert together.number == alone.number
    assert together.lost == alone.lost
    assert max(blocks) > 1


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


def test_an_agent_that_is_away_wakes_when_it_returns():
    running = events(STEPS, Simulated(away={3: [(4.5, 20.0), (25.0, 26.0)]}))
    times = []
    while running.done < 8 * 30:
        times += [running.clock[i] for i in running.advance(1) if i == 3]
    np.testing.assert_array_equal(times[:11], [1, 2, 3, 4, 20, 21, 22, 23, 24, 26, 27])


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


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("clock", ["uniform", "heavy"])
def test_a_run_goes_on_from_a_checkpoint_with_equal_bits(tmp_path, clock, batch):
    options = {"whole": problem(scheme="iid"), "graph": CIRCLE, "solver": ASYSONATA(FullLinearization(30.0), 0.1, batch=batch)}
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
    for surrogate in (FullLinearization(30.0), PartialLinearization(0.5, curvature="local")):
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
    with pytest.raises(ValueError, match="compute: the trace has no row for agent 1"):
        run(Simulated(times))
    delays.write_text("source,seconds\n0,1\n")
    with pytest.raises(ValueError, match=r"must have the columns source, target, seconds; it lacks \['target'\]"):
        run(Simulated(delay=delays))


def test_delays_can_differ_by_arc():
    delay = np.zeros((8, 8))
    delay[0, 1] = 3.0
    running = events(STEPS, Simulated(delay=delay))
    for _ in range(3 * 8):
        running.advance(1)
    assert running.newest[1][running.arcs.sources[1].tolist().index(0)] == -1
    assert running.newest[2] == [2, -1]


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clock", "fault"),
    [
        ({"compute": 0.0}, "compute must be > 0; it is 0 for agent 0"),
        ({"compute": -1.0}, "compute must be .*>= 0.*got -1"),
        ({"compute": [1.0, 2.0]}, "compute must have an entry for each of the 8 agents; got 2"),
        ({"compute": (2.0, 1.0)}, "high of compute must be .*>= 2"),
        ({"compute": scipy.stats.norm()}, "compute must be a distribution of numbers >= 0"),
        ({"delay": -0.5}, "delay must be .*>= 0.*got -0.5"),
        ({"delay": np.ones(8)}, r"delay must be an array \(source, target\) of shape \(8, 8\)"),
        ({"delay": scipy.stats.norm()}, "delay must be a distribution of numbers >= 0"),
        ({"loss": 1.0}, "loss must be numbers below 1"),
        ({"loss": (0.1, 0.2)}, "loss must be numbers below 1"),
        ({"begin": np.inf}, "begin must be"),
        ({"away": {3: [(1.0, np.inf)]}}, "agent 3 never wakes again after 1"),
        ({"away": {9: [(1.0, 2.0)]}}, "away has agent 9, and there are 8"),
        ({"away": {3: [(2.0, 1.0)]}}, "with 0 <= from < to"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_settings_that_are_wrong_are_refused_by_name(clock, fault):
    with pytest.raises(ValueError, match=fault):
        run(Simulated(**clock))


@pytest.mark.parametrize(
    ("clock", "fault"),
    [
        ({"compute": "fast"}, "fast"),
        ({"compute": {3: 1.0}}, "compute must be a number, a pair"),
        ({"away": [1, 2]}, "away must be a mapping"),
        ({"away": {3: [4.0]}}, r"must be pairs \(from, to\)"),
    ],
)
def test_settings_of_another_kind_are_refused(clock, fault):
    with pytest.raises((TypeError, FileNotFoundError), match=fault):
        run(Simulated(**clock))
