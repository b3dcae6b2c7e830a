"""The exchanges of a round keep sums, their estimates are those of dense arithmetic, and every byte is counted."""

import numpy as np
import pytest

import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers.adaptive import averaging, filters
from consensus.solvers.adaptive.averaging import Inputs, Memory, Pace, average
from tests.helpers.problems import AGENTS, CIRCLE, SCHEDULES
from tests.helpers.turns import in_turn, with_slow

P, COUNT = 5, 2
STATIC = {name: topologies.Static(getattr(topologies, name)(AGENTS)) for name in ("path", "complete")}
STATIC["static"] = SCHEDULES["static"]
OTHERS = {name: schedule for name, schedule in SCHEDULES.items() if name != "static"}
OTHERS["matchings"] = topologies.Matchings(AGENTS, seed=1)
EVERY = STATIC | OTHERS
LENGTHS = (1, 2, 4, 8, 16, 32, 64)
FINE, PLAIN, COARSE = 2.0**-40, 2.0**-6, 4.0
GOAL = np.full(AGENTS, 1 / AGENTS)


def draw(agents, seed=0, unit=FINE, count=COUNT):
    """Points near 10, trackers, products and scalars, with units of ``unit``."""
    rng = np.random.default_rng(seed)
    arrays = {
        "points": 10 + rng.standard_normal((agents, P)),
        "trackers": 3 * rng.standard_normal((agents, P)),
        "products": rng.standard_normal((agents, P, count)),
    }
    scalars = {name: rng.uniform(1, 2, agents) for name in ("tau", "fall", "scale")}
    return Inputs(**arrays, **scalars, units=np.full((agents, 2), unit), unit=np.full(agents, unit))


class Run:
    """Consecutive rounds on a network."""

    def __init__(self, schedule, strict=False):
        self.schedule, self.network = schedule, StackedNetwork(schedule, np.float64, strict)
        self.pace = Pace.at_start(np.arange(schedule.agents), schedule.agents, np.dtype(float))
        self.memory = Memory.empty(np.zeros((schedule.agents, 2 * P)))

    def round(self, own, agree=True):
        """Return the averages of a round, and the products (length + 1, A, A) of its mixing matrices."""
        chain = [np.eye(self.schedule.agents)]
        for n in range(self.pace.sent, self.pace.sent + self.pace.length):
            chain.append(self.schedule.weights(self.schedule.key(n)) @ chain[-1])
        found = average(self.network, self.pace, self.memory, own)
        self.pace = found.pace.next(self.network, np.broadcast_to(agree, self.schedule.agents))
        self.memory = found.memory
        return found, np.array(chain)

    def lengths(self, rounds, agree=True):
        """Return the exchanges of each of so many rounds, in which agents ``agree`` or not."""
        found = []
        for _ in range(rounds):
            self.round(draw(self.schedule.agents), agree)
            found.append(self.pace.last)
        return found

    def sent(self, own):
        """Return the bytes and numbers of a message in a round on average, and the round's averages."""
        before = np.array([self.network.bytes, self.network.floats, self.network.messages])
        found, _ = self.round(own)
        size, numbers, messages = [self.network.bytes, self.network.floats, self.network.messages] - before
        return size / messages, numbers / messages, found


def powers(W, most):
    """Return W^0 ... W^most as (agents, most + 1, agents)."""
    return np.array([np.linalg.matrix_power(W, k) for k in range(most + 1)]).swapaxes(0, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "unit"), in_turn(EVERY, [FINE, PLAIN, COARSE]))
def test_sums_are_kept_whatever_rounding_loses(name, unit):
    run, own = Run(EVERY[name]), draw(AGENTS, unit=unit)
    for _ in range(34):
        mass, filtered = run.pace.mass, run.pace.balanced and run.pace.length > 1
        found, _ = run.round(own)
        np.testing.assert_allclose(found.trackers.sum(axis=0), own.trackers.sum(axis=0), rtol=0, atol=1e-12)
        assert run.pace.mass.sum() == pytest.approx(AGENTS, rel=1e-13)
        if not filtered:
            total = (run.pace.mass * found.points).sum(axis=0)
            np.testing.assert_allclose(total, (mass * own.points).sum(axis=0), rtol=1e-13, atol=0)
        own = own._replace(trackers=found.trackers)
    assert np.ptp(own.trackers / run.pace.mass, axis=0).max() < 8 * unit + 1e-3


@pytest.mark.parametrize("name", EVERY)
def test_estimates_in_small_units_are_those_of_dense_arithmetic(name):
    run = Run(EVERY[name])
    for seed in range(24):
        own, pace = draw(AGENTS, seed), run.pace
        found, chain = run.round(own)
        last, mass = chain[-1], chain[-1] @ pace.mass
        c = {what: np.tile(np.eye(len(chain))[-1], (AGENTS, 1)) / mass for what in ("points", "products")}
        if pace.balanced and pace.length > 1:
            c = {what: filters.weights(chain.swapaxes(0, 1), GOAL, what)[0] for what in c}
        for estimate, rows, what in (
            (found.points, pace.mass * own.points, "points"),
            (found.slope, own.trackers, "points"),
            (found.products, pace.mass[:, :, None] * own.products, "products"),
        ):
            expected = np.einsum("ak,kab,b...->a...", c[what], chain, rows)
            np.testing.assert_allclose(estimate, expected, rtol=0, atol=1e-6)
        np.testing.assert_allclose(found.trackers, last @ own.trackers, rtol=0, atol=1e-7)
        np.testing.assert_allclose(run.pace.mass, mass, rtol=1e-13, atol=0)
        weights = last * pace.mass[:, 0] / mass
        np.testing.assert_allclose(found.tau, np.sqrt(weights @ np.square(own.tau)), rtol=1e-12)
        np.testing.assert_allclose(found.fall, weights @ own.fall, rtol=1e-12)
        np.testing.assert_allclose(found.scale, weights @ own.scale, rtol=1e-12)


# What is sent


def test_messages_of_agents_that_are_near_take_fewer_bytes():
    sizes = []
    for name in ("static", "random"):
        run, own = Run(EVERY[name]), draw(AGENTS, unit=PLAIN)
        for _ in range(40):
            size, _, found = run.sent(own)
            own = own._replace(trackers=found.trackers, points=found.points, products=0 * own.products)
        sizes.append(size)
    plain = 5 * 8 + 3 * 2  # scalars, and exponents of units
    assert sizes[0] <= 8 + plain + 5  # differences of a unit at most: two bytes for P of them, one for nothing
    assert sizes[1] > plain + 5 + P


def test_probes_are_sent_as_far_as_rounds_of_twice_the_length_need_them():
    run, numbers, expected, probed = Run(EVERY["path"]), [], [], 0
    for _ in range(40):
        length = run.pace.length
        numbers.append(run.sent(draw(AGENTS))[1])
        more = max(0, min(length, 2 * length - probed))
        expected.append(2 * P + P * COUNT + 4 + 1 + AGENTS * more / length)
        probed += more
    np.testing.assert_allclose(numbers, expected, rtol=1e-12)
    assert run.pace.probed == probed
    W = EVERY["path"].weights(0).toarray()
    np.testing.assert_allclose(run.pace.probes[:, : probed + 1], powers(W, probed), rtol=0, atol=1e-6)


# How many exchanges


@pytest.mark.parametrize("name", STATIC)
def test_rounds_grow_to_the_first_length_that_is_good_enough(name):
    held = powers(STATIC[name].weights(0).toarray(), LENGTHS[-1])
    misfits = [filters.weights(held[:, : length + 1], GOAL, "points")[1].max() for length in LENGTHS]
    enough = LENGTHS[next(k for k, misfit in enumerate(misfits) if misfit <= averaging._MISFIT)]
    run = Run(STATIC[name])
    expected = [length for length in LENGTHS if length < enough for _ in range(8)]
    assert run.lengths(56) == expected + [enough] * (56 - len(expected))
    assert run.pace.balanced
    assert (enough == 1) == (name == "complete")


@pytest.mark.parametrize("name", with_slow(OTHERS, *list(OTHERS)[2:]))
def test_where_no_misfit_is_known_eight_exchanges_are_enough(name):
    run = Run(OTHERS[name])
    lengths = run.lengths(50)
    assert lengths == [1] * 8 + [2] * 8 + [4] * 8 + [8] * 26
    assert run.pace.sent == run.network.exchanges == sum(lengths)
    assert not run.pace.balanced


@pytest.mark.slow
@pytest.mark.parametrize("name", ["static", "complete", "failing"])
def test_rounds_grow_while_one_agent_disagrees_in_all_eight_of_a_length(name):
    run, alone = Run(EVERY[name]), np.arange(AGENTS) != 2
    assert run.lengths(64, alone)[::8] == [*LENGTHS, 64]
    run = Run(EVERY[name])
    start = run.lengths(40)[-1]
    for disagreeing in (7, 8):
        run.lengths(disagreeing, alone)
        run.lengths(8 - disagreeing)
        assert run.pace.length == (start if disagreeing == 7 else 2 * start)


BALANCED = STATIC | {
    "directed and doubly stochastic": topologies.Static(CIRCLE, weights=topologies.sinkhorn),
    "more agents than probes": topologies.Static(topologies.small_world(100, 6, 0.3, seed=1)),
}


@pytest.mark.parametrize("name", BALANCED)
def test_balanced_networks_average_to_the_misfit(name):
    run = Run(BALANCED[name])
    assert (1 < run.lengths(32)[-1] < 32) == (name != "complete")
    assert run.pace.balanced
    own, misfit = draw(run.schedule.agents, seed=9), run.pace.filters(run.network, "points")[1]
    assert (misfit <= averaging._MISFIT).all()
    slack, found = 1.3 if name == "more agents than probes" else 1.01, run.round(own)[0]  # the misfit is among the probes
    for estimate, rows in ((found.points, own.points), (found.slope, own.trackers)):
        apart = rows - rows.mean(axis=0)
        assert (np.abs(estimate - rows.mean(axis=0)) <= slack * misfit[:, None] * np.linalg.norm(apart, axis=0) + 1e-6).all()
        missed = np.linalg.norm(estimate - rows.mean(axis=0), axis=0)
        assert name == "complete" or (missed < slack * averaging._MISFIT * np.linalg.norm(apart, axis=0)).all()
