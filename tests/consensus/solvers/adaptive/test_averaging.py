"""A round's exchanges: sums are kept, estimates are those of dense arithmetic, and every byte is counted."""

import numpy as np
import pytest
from problems import AGENTS, CIRCLE, SCHEDULES

import topologies
from consensus.compression.runs import pack
from consensus.engines.stacked import StackedNetwork
from consensus.solvers.adaptive import averaging, filters
from consensus.solvers.adaptive.averaging import Own, Pace, Told, average

P, COUNT = 5, 2
EVERY = SCHEDULES | {
    "path": topologies.Static(topologies.path(AGENTS)),
    "complete": topologies.Static(topologies.complete(AGENTS)),
    "matchings": topologies.Matchings(AGENTS, seed=1),
}
BALANCED = [name for name in EVERY if not name.startswith("directed")]
LENGTHS = (1, 2, 4, 8, 16, 32, 64)
FINE, PLAIN, COARSE = 2.0**-40, 2.0**-6, 4.0


def draw(agents, seed=0, unit=FINE, count=COUNT):
    """What agents bring to a round: points near 10, trackers, products and scalars, all in units of ``unit``."""
    rng = np.random.default_rng(seed)
    return Own(
        points=10 + rng.standard_normal((agents, P)),
        trackers=3 * rng.standard_normal((agents, P)),
        units=np.full((agents, 2), unit),
        products=rng.standard_normal((agents, P, count)),
        unit=np.full(agents, unit),
        tau=rng.uniform(1, 2, agents),
        fall=rng.uniform(1, 2, agents),
        scale=rng.uniform(1, 2, agents),
    )


class Run:
    """Rounds of a network one after the other: what they find, and the matrix products of what was done."""

    def __init__(self, schedule, strict=False):
        self.schedule, self.network = schedule, StackedNetwork(schedule, np.float64, strict)
        self.pace = Pace.at_start(np.arange(schedule.agents), schedule.agents, np.dtype(float))
        self.told = Told.nothing(np.zeros((schedule.agents, 2 * P)))

    def round(self, own, agree=True):
        """The averages of a round, which agents ``agree`` with, and the matrices (length + 1, A, A) that their data met."""
        chain = [np.eye(self.schedule.agents)]
        for n in range(self.pace.sent, self.pace.sent + self.pace.length):
            chain.append(self.schedule.weights(self.schedule.key(n)) @ chain[-1])
        found = average(self.network, self.pace, self.told, own)
        self.pace = found.pace.next(self.network, np.broadcast_to(agree, self.schedule.agents))
        self.told = found.told
        return found, np.array(chain)

    def lengths(self, rounds, agree=True):
        """Those of so many rounds, with which agents ``agree``."""
        found = []
        for _ in range(rounds):
            self.round(draw(self.schedule.agents), agree)
            found.append(self.pace.last)
        return found


@pytest.mark.parametrize("unit", [FINE, PLAIN, COARSE])
@pytest.mark.parametrize("name", EVERY)
def test_sums_are_kept_whatever_rounding_loses(name, unit):
    run, own = Run(EVERY[name]), draw(AGENTS, unit=unit)
    for _ in range(34):
        mass, filtered = run.pace.mass, run.pace.balanced and run.pace.length > 1
        found, _ = run.round(own)
        np.testing.assert_allclose(found.trackers.sum(axis=0), own.trackers.sum(axis=0), rtol=0, atol=1e-12)
        assert run.pace.mass.sum() == pytest.approx(AGENTS, rel=1e-13)
        if not filtered:  # estimates are what agents hold, over their masses
            held, total = run.pace.mass * found.points, mass * own.points
            np.testing.assert_allclose(held.sum(axis=0), total.sum(axis=0), rtol=1e-13, atol=0)
        own = own._replace(trackers=found.trackers)
    assert np.ptp(own.trackers / run.pace.mass, axis=0).max() < 8 * unit + 1e-3  # they mix nevertheless


@pytest.mark.parametrize("name", EVERY)
def test_estimates_in_small_units_are_those_of_dense_arithmetic(name):
    run = Run(EVERY[name])
    for seed in range(20):
        own, pace = draw(AGENTS, seed), run.pace
        found, chain = run.round(own)
        rows = np.concatenate([pace.mass * own.points, own.trackers], axis=1)
        if pace.balanced and pace.length > 1:
            c = filters.weights(chain.swapaxes(0, 1), np.full(AGENTS, 1 / AGENTS), "points")[0]
            expected = np.einsum("ak,kab,bp->ap", c, chain, rows)
        else:
            expected = chain[-1] @ rows / (chain[-1] @ pace.mass)
        np.testing.assert_allclose(found.points, expected[:, :P], rtol=0, atol=1e-6)
        np.testing.assert_allclose(found.slope, expected[:, P:], rtol=0, atol=1e-6)
        np.testing.assert_allclose(found.trackers, chain[-1] @ own.trackers, rtol=0, atol=1e-7)
        np.testing.assert_allclose(run.pace.mass, chain[-1] @ pace.mass, rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", ["static", "path", "complete"])
def test_on_static_networks_they_miss_the_means_by_the_misfit_at_most(name):
    run = Run(EVERY[name])
    run.lengths(32)
    own = draw(AGENTS, seed=9)
    misfit = run.pace.filters(run.network, "points")[1]
    found, _ = run.round(own)
    for estimate, rows in ((found.points, own.points), (found.slope, own.trackers)):
        # The misfit is of unit vectors: what it makes of the agents' data is no more than that times their norm.
        bound = misfit[:, None] * np.linalg.norm(rows - rows.mean(axis=0), axis=0)
        assert (np.abs(estimate - rows.mean(axis=0)) <= 1.01 * bound + 1e-6).all()
    assert (misfit <= averaging._MISFIT).all()


@pytest.mark.parametrize("name", EVERY)
def test_in_the_end_all_estimate_the_means_of_data_that_stay(name):
    run, own, goal = Run(EVERY[name]), draw(AGENTS), draw(AGENTS).trackers.mean(axis=0)
    for _ in range(60):
        found, _ = run.round(own)
        own = own._replace(points=found.points, trackers=found.trackers)
    np.testing.assert_allclose(found.slope, np.tile(goal, (AGENTS, 1)), rtol=0, atol=2e-8)
    np.testing.assert_allclose(found.points, np.tile(found.points[0], (AGENTS, 1)), rtol=0, atol=2e-8)


@pytest.mark.parametrize("name", EVERY)
def test_points_that_agree_stay_as_they_are(name):
    run, points = Run(EVERY[name]), np.tile(10 * np.random.default_rng(4).standard_normal(P), (AGENTS, 1))
    for seed in range(20):
        found, _ = run.round(draw(AGENTS, seed)._replace(points=points))
        np.testing.assert_allclose(found.points, points, rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", BALANCED)
def test_products_are_averaged_anew_every_round(name):
    run = Run(EVERY[name])
    for seed in range(20):
        own, pace = draw(AGENTS, seed), run.pace
        found, chain = run.round(own)
        if pace.balanced and pace.length > 1:
            c = filters.weights(chain.swapaxes(0, 1), np.full(AGENTS, 1 / AGENTS), "products")[0]
            expected = np.einsum("ak,kab,bpn->apn", c, chain, own.products)
        else:
            expected = np.einsum("ab,bpn->apn", chain[-1], own.products)
        np.testing.assert_allclose(found.products, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_of_tau_the_square_is_averaged_and_other_scalars_as_they_are(name):
    run, own = Run(EVERY[name]), draw(AGENTS)
    for _ in range(24):
        pace = run.pace
        found, chain = run.round(own)
        weights = chain[-1] * pace.mass[:, 0] / (chain[-1] @ pace.mass)
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
        np.testing.assert_allclose(found.tau, np.sqrt(weights @ np.square(own.tau)), rtol=1e-12)
        np.testing.assert_allclose(found.fall, weights @ own.fall, rtol=1e-12)
        np.testing.assert_allclose(found.scale, weights @ own.scale, rtol=1e-12)


@pytest.mark.parametrize("name", ["static", "path", "complete", "directed"])
def test_on_static_networks_agents_know_w_times_what_neighbours_were_told(name):
    run, W = Run(EVERY[name]), EVERY[name].weights(0).toarray()
    for seed in range(24):
        run.round(draw(AGENTS, seed, unit=PLAIN))
        scale = np.abs(run.told.sent).max()
        np.testing.assert_allclose(run.told.mixed, W @ run.told.sent, rtol=0, atol=1e-13 * scale)
        np.testing.assert_allclose(run.told.sent * 64, np.rint(run.told.sent * 64), rtol=0, atol=0)  # whole units


@pytest.mark.parametrize("name", ["random", "failing", "directed, failing", "matchings"])
def test_on_changing_networks_everything_is_said_anew(name):
    run = Run(EVERY[name])
    for seed in range(8):  # of one exchange each
        own, mass = draw(AGENTS, seed, unit=PLAIN), run.pace.mass
        run.round(own)
        rows = np.concatenate([mass * own.points, own.trackers], axis=1)
        assert np.abs(run.told.sent - rows).max() <= PLAIN / 2
        W = EVERY[name].weights(EVERY[name].key(seed))
        np.testing.assert_allclose(run.told.mixed, W @ run.told.sent, rtol=0, atol=1e-13)


# What is sent


@pytest.mark.parametrize("name", ["static", "random", "directed, failing"])
def test_the_bytes_of_an_exchange_are_those_of_its_messages(name):
    run, own = Run(EVERY[name], strict=True), draw(AGENTS, unit=PLAIN)
    run.round(own)
    W = EVERY[name].weights(EVERY[name].key(0)).toarray()
    others = np.count_nonzero(W - np.diag(np.diag(W)), axis=0)  # to how many an agent sends
    assert others.sum() == run.network.messages == len(run.network.record)
    probes, says = AGENTS if name == "static" else 0, 1  # whether they are content
    sizes = np.empty(AGENTS, int)
    for agent in range(AGENTS):
        blocks = [own.points[agent], own.trackers[agent], own.products[agent].ravel()]
        whole = [np.rint(block / PLAIN).astype(np.int32) for block in blocks]
        sizes[agent] = sum(len(pack(codes)) + 2 for codes in whole) + 8 * (4 + probes + says)  # mass and scalars
    assert run.network.bytes == others @ sizes
    assert run.network.floats == others.sum() * (2 * P + P * COUNT + 4 + probes + says)


def test_without_a_model_no_curvature_is_sent():
    run = Run(EVERY["random"])
    found, _ = run.round(draw(AGENTS, count=0))
    assert found.products.shape == (AGENTS, P, 0)
    assert run.network.floats == run.network.messages * (2 * P + 5)


def test_messages_of_agents_that_are_near_take_fewer_bytes():
    sizes = []
    for name in ("static", "random"):
        run, own = Run(EVERY[name]), draw(AGENTS, unit=PLAIN)
        for _ in range(40):
            before, sent = run.network.bytes, run.network.messages
            found, _ = run.round(own)
            own = own._replace(trackers=found.trackers, points=found.points, products=0 * own.products)
        sizes.append((run.network.bytes - before) / (run.network.messages - sent))
    plain = 5 * 8 + 3 * 2  # scalars, and exponents of units
    assert sizes[0] <= 8 + plain + 5  # differences of a unit at most: two bytes for P of them, one for nothing
    assert sizes[1] > plain + 5 + P


def test_probes_are_sent_as_far_as_rounds_of_twice_the_length_need_them():
    run, numbers, expected, probed = Run(EVERY["path"]), [], [], 0
    width = 2 * P + P * COUNT + 4 + 1
    for _ in range(40):
        before, sent, length = run.network.floats, run.network.messages, run.pace.length
        run.round(draw(AGENTS))
        numbers.append((run.network.floats - before) / (run.network.messages - sent))
        more = max(0, min(length, 2 * length - probed))
        expected.append(width + AGENTS * more / length)
        probed += more
    np.testing.assert_allclose(numbers, expected, rtol=1e-12)
    W = EVERY["path"].weights(0).toarray()
    powers = np.array([np.linalg.matrix_power(W, k) for k in range(run.pace.probed + 1)]).swapaxes(0, 1)
    assert run.pace.probed == probed
    np.testing.assert_allclose(run.pace.probes[:, : probed + 1], powers, rtol=0, atol=1e-6)


# How many exchanges


@pytest.mark.parametrize("name", ["static", "path", "complete"])
def test_rounds_grow_to_the_first_length_that_is_good_enough(name):
    W = EVERY[name].weights(0).toarray()
    for enough in LENGTHS:
        held = np.array([np.linalg.matrix_power(W, k) for k in range(enough + 1)]).swapaxes(0, 1)
        if (filters.weights(held, np.full(AGENTS, 1 / AGENTS), "points")[1] <= averaging._MISFIT).all():
            break
    run = Run(EVERY[name])
    expected = [length for length in LENGTHS if length < enough for _ in range(8)]
    assert run.lengths(56) == expected + [enough] * (56 - len(expected))
    assert run.pace.balanced
    assert (enough == 1) == (name == "complete")


@pytest.mark.parametrize("name", ["random", "failing", "matchings", "directed", "directed, failing"])
def test_where_no_misfit_is_known_eight_exchanges_are_enough(name):
    run = Run(EVERY[name])
    lengths = run.lengths(50)
    assert lengths == [1] * 8 + [2] * 8 + [4] * 8 + [8] * 26
    assert run.pace.sent == run.network.exchanges == sum(lengths)
    assert not run.pace.balanced


@pytest.mark.parametrize("name", ["static", "complete", "failing"])
def test_rounds_grow_while_one_agent_disagrees_in_all_eight_of_a_length(name):
    run, alone = Run(EVERY[name]), np.arange(AGENTS) != 2
    assert run.lengths(64, alone)[::8] == [*LENGTHS, 64]
    run = Run(EVERY[name])
    start = run.lengths(40)[-1]
    for disagreeing in (7, 8):  # of eight
        run.lengths(disagreeing, alone)
        run.lengths(8 - disagreeing)
        assert run.pace.length == (start if disagreeing == 7 else 2 * start)


def test_directed_links_with_doubly_stochastic_weights_are_as_good_as_others():
    run = Run(topologies.Static(CIRCLE, weights=topologies.sinkhorn))
    run.lengths(32)
    assert run.pace.balanced
    own = draw(AGENTS, seed=9)
    found, _ = run.round(own)
    left = np.linalg.norm(found.slope - own.trackers.mean(axis=0), axis=0)
    assert (left < averaging._MISFIT * np.linalg.norm(own.trackers - own.trackers.mean(axis=0), axis=0)).all()


def test_more_agents_than_probes():
    schedule = topologies.Static(topologies.small_world(100, 6, 0.3, seed=1))
    run = Run(schedule)
    lengths = run.lengths(26)
    own = draw(100, seed=9)
    found, _ = run.round(own)
    start = np.linalg.norm(own.trackers - own.trackers.mean(axis=0), axis=0)
    left = np.linalg.norm(found.slope - own.trackers.mean(axis=0), axis=0)
    assert 1 < lengths[-1] < 32
    assert (left < 1.2 * averaging._MISFIT * start).all()  # that is among the probes
