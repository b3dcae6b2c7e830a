"""Callbacks, metrics and time budgets: what they are given, what they may return, and what is refused."""

import time

import numpy as np
import pytest
from problems import problem

import consensus
import topologies
from consensus.observe import Due, total
from consensus.observe.counts import NAMES
from consensus.observe.metrics import agents_mean, disagreement
from consensus.observe.recorder import Recorder
from consensus.observe.stopper import Stopper
from consensus.solvers import DGD, AdaptiveNEXT

RING = topologies.ring(6)


def run(rounds=6, solver=None, **options):
    return consensus.solve(problem(), RING, solver or DGD(0.05), rounds=rounds, **options)


def test_what_a_callback_sees_cannot_change_the_run():
    kept, p = [], problem()

    def meddle(seen):
        kept.append((seen, seen.w, seen.mean, seen.row))
        for array in (seen.w, seen.mean, seen["agent_objective"]):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
        with pytest.raises(TypeError):
            seen.row["objective"] = 0.0
        with pytest.raises(AttributeError):
            seen.round = 0
        seen.w.flags.writeable = True  # of a copy
        seen.w[...] = 0
        assert seen.problem is p

    result = consensus.solve(p, RING, DGD(0.05), rounds=4, callbacks=[meddle], agent_objectives=True)
    np.testing.assert_array_equal(result.w, run(4).w)
    np.testing.assert_array_equal(result.history["objective"], run(4).history["objective"])
    for number, (seen, _, mean, row) in enumerate(kept):
        assert seen.history is result.history
        assert seen["objective"] == row["objective"] == result.history["objective"][number]
        np.testing.assert_array_equal(mean, run(number).mean)


def test_a_column_that_there_is_not_is_named():
    with pytest.raises(KeyError, match="no column 'loss'; there are round, objective, stationarity"):
        run(callbacks=[lambda seen: seen["loss"]])


def test_all_callbacks_are_called_and_the_first_reason_counts():
    called = []

    def say(reason):
        return lambda seen: called.append(seen.round) or (reason if seen.round == 4 else None)

    result = run(record_every=2, callbacks=[say(None), say("this"), say("that")])
    assert (result.reason, result.rounds) == ("this", 4)
    assert called == [0, 0, 0, 2, 2, 2, 4, 4, 4]
    called.clear()
    assert run(exchanges=4, callbacks=[say("this")]).reason == "4 exchanges done at round 4"
    assert called == [0, 1, 2, 3, 4]


def test_a_run_may_stop_at_its_start():
    result = run(callbacks=[lambda seen: "no need"])
    assert (result.rounds, result.reason, result.history["round"].tolist()) == (0, "no need", [0])


@pytest.mark.parametrize("odd", [0, False, True, "", 1.5, b"stop", ["stop"]])
def test_what_is_no_reason_is_refused(odd):
    def looks(seen):
        return odd if seen.round == 2 else None

    with pytest.raises(
        TypeError, match=r"^callbacks\[1\], looks, must return None, or the reason to stop as a text; got "
    ) as caught:
        run(callbacks=[lambda seen: None, looks])
    assert caught.value.history["round"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, BaseException])
@pytest.mark.parametrize("at", [0, 2])
def test_whatever_a_callback_raises_has_the_history(error, at):
    def fails(seen):
        if seen.round == at:
            raise error("enough")

    with pytest.raises(error) as caught:
        run(callbacks=[fails])
    assert caught.value.history["round"].tolist() == list(range(at + 1))
    if error is KeyboardInterrupt:
        np.testing.assert_array_equal(caught.value.result.w, run(at).w)
    else:
        assert caught.value.args == ("enough",)
        assert caught.value.__notes__ == [f"in callbacks[0], fails, at round {at}"]


def test_an_exception_with_a_history_of_its_own_keeps_it():
    class Own(Exception):
        history = property(lambda self: "mine")

    def fails(seen):
        raise Own

    with pytest.raises(Own) as caught:
        run(callbacks=[fails])
    assert caught.value.history == "mine"


def test_a_resumed_run_calls_with_the_row_it_goes_on_from(tmp_path):
    path, rounds = tmp_path / "run.ckpt", []
    stops = [lambda seen: rounds.append(seen.round) or ("enough" if seen.round >= 4 else None)]
    assert run(callbacks=stops, checkpoint=path).rounds == 4
    assert run(callbacks=stops, resume=path).reason == "enough"  # as a tolerance that is met is still met
    assert rounds == [0, 1, 2, 3, 4, 4]
    rounds.clear()
    run(rounds=5, record_every=3, checkpoint=path)
    run(rounds=9, record_every=3, resume=path, callbacks=[lambda seen: rounds.append(seen.round)])
    assert rounds == [6, 9]  # round 5 was the last of a shorter run, and is no recorded one of this


# Metrics


def test_metrics_are_the_last_columns_and_of_the_mean():
    solver = AdaptiveNEXT()
    metrics = {
        "val/norm": np.linalg.norm,
        "zero": lambda mean: np.float32(0),
        "0-d": lambda mean: mean.max(),
        "nan": lambda _: np.nan,
    }
    result = run(solver=solver, metrics=metrics)
    assert list(result.history) == [*run(solver=solver).history, *metrics]
    assert result.history["val/norm"][-1] == np.linalg.norm(result.mean)
    assert result.history["0-d"][-1] == result.mean.max()
    assert np.isnan(result.history["nan"]).all()
    assert all(result.history[name].dtype == float for name in metrics)


def test_metrics_cannot_change_the_mean():
    def meddle(mean):
        mean[...] = 0

    with pytest.raises(ValueError, match="read-only"):
        run(metrics={"meddle": meddle})


@pytest.mark.parametrize(
    "odd", [None, "0.5", np.zeros(2), [0.5], 1j, np.complex128(1), np.str_("3"), {}, 10**400, np.datetime64("2020")], ids=repr
)
def test_what_is_no_number_is_refused(odd):
    with pytest.raises(TypeError, match=r"^metrics\['accuracy'\] must return a number; got "):
        run(metrics={"norm": np.linalg.norm, "accuracy": lambda mean: odd})


@pytest.mark.parametrize(
    "name", ["round", "objective", "seconds", "bytes", "test_error", "agent_objective", "agent_objective_0", "tau_least"]
)
def test_names_of_other_columns_are_refused(name):
    solver = AdaptiveNEXT()
    assert name != "tau_least" or name in solver.history_columns
    with pytest.raises(ValueError, match=f"^metrics must have names of their own; '{name}' is taken, as are round, objective"):
        run(solver=solver, metrics={name: np.linalg.norm})


def test_a_resumed_run_has_the_columns_of_its_checkpoint(tmp_path):
    path, metrics = tmp_path / "run.ckpt", {"val/norm": np.linalg.norm, "first": lambda mean: mean[0]}
    run(metrics=metrics, checkpoint=path)
    longer = run(9, metrics=metrics, resume=path)
    np.testing.assert_array_equal(longer.history["val/norm"], run(9, metrics=metrics).history["val/norm"])
    turned = run(9, metrics=dict(reversed(metrics.items())), resume=path)
    np.testing.assert_array_equal(turned.history["first"], longer.history["first"])
    with pytest.raises(
        ValueError, match=r"run\.ckpt has .*only there \['first', 'val/norm'\], only here \[\]; give the same metrics"
    ):
        run(9, resume=path)
    with pytest.raises(ValueError, match=r"only there \['first'\], only here \['agent_objective', 'last'\]"):
        run(9, resume=path, metrics={"val/norm": np.linalg.norm, "last": lambda mean: mean[-1]}, agent_objectives=True)


# The clock


def test_callbacks_and_metrics_are_off_the_clock():
    def sleeps(_):
        time.sleep(0.05)

    result = run(rounds=4, callbacks=[sleeps], metrics={"slow": lambda mean: sleeps(mean) or 0.0}, seconds=0.2)
    assert result.rounds == 4  # though 0.5 s went by
    assert result.history["seconds"][-1] < 0.2


def test_due_rounds():
    due = Due(every=3, rounds=10, saves=4)
    assert [round for round in range(11) if due.recorded(round)] == [0, 3, 6, 9, 10]
    assert [round for round in range(11) if due.saved(round)] == [0, 4, 8, 10]
    assert [round for round in range(11) if due(round)] == [0, 3, 4, 6, 8, 9, 10]
    assert not Due(every=3, rounds=10, saves=None).saved(10)


def test_the_first_bound_that_is_reached_is_the_reason():
    row = {"round": 7, "stationarity": 1e-3, "disagreement": 2e-3, "exchanges": 14, "seconds": 3.0}
    assert Stopper().reason(row) is None
    assert Stopper(tolerance=1e-3, exchanges=15, seconds=3.5).reason(row) is None
    assert Stopper(tolerance=2e-3, exchanges=14).reason(row) == "stationarity and disagreement at most 0.002 at round 7"
    assert Stopper(exchanges=14, seconds=3.0).reason(row) == "14 exchanges done at round 7"
    assert Stopper(seconds=3.0).reason(row) == "time budget of 3 s used up at round 7"


# At the door


@pytest.mark.parametrize(
    "odd", [print, None, "print", {print}, [3], [print, "x"], iter([print]), [DGD]], ids=lambda odd: type(odd).__name__
)
def test_what_are_no_callbacks_is_refused(odd):
    with pytest.raises(TypeError, match=r"^callbacks must be a list of functions f\(seen\), such as \[print\]; got "):
        run(callbacks=odd)


@pytest.mark.parametrize("odd", [print, [print], "x", {3: print}, {"": print}, {"x": 3}, {"x": DGD}], ids=repr)
def test_what_are_no_metrics_is_refused(odd):
    with pytest.raises(TypeError, match=r"^metrics must be a mapping of names to functions f\(mean\), such as .*; got "):
        run(metrics=odd)


@pytest.mark.parametrize("odd", [0, -1.0, np.inf, np.nan, "1", True, [1.0]])
def test_what_is_no_time_budget_is_refused(odd):
    with pytest.raises(ValueError, match=r"^seconds must be a finite number > 0; got "):
        run(seconds=odd)


def test_counts_of_blocks_are_summed_where_they_are_of_the_whole_network():
    """As solve's docstring lists them: exchanges, gradients and solves are those of each agent."""
    blocks = [{name: 10 * k + block for k, name in enumerate(NAMES)} for block in (1, 2)]
    each = ("exchanges", "gradients", "solves")
    assert total(blocks) == {name: 10 * k + 1 if name in each else 20 * k + 3 for k, name in enumerate(NAMES)}


def test_epochs_are_passes_over_the_data_of_all_agents():
    p = problem()
    recorder = Recorder(p, DGD(0.1))
    recorder.attach(p.restrict([0, 1]), recorder.gather)  # what a worker or a rank holds
    counts = dict.fromkeys(NAMES, 0) | {"samples": 2 * p.shards.samples, "gradients": 2}
    assert recorder.record(0, np.zeros((2, p.parameters)), None, counts, 0.0)["epochs"] == 2


def test_the_worst_agent_is_the_worst():
    p, w = problem(), np.random.default_rng(0).standard_normal((6, 5))
    X, y = np.random.default_rng(1).standard_normal((9, 4)), np.arange(9.0)
    history = consensus.solve(p, RING, DGD(0.1), rounds=0, start=w, test=(X, y)).history
    errors = ((X @ w[:, :4].T + w[:, 4] - y[:, None]) ** 2).mean(axis=0)
    assert history["test_error_worst"][0] == pytest.approx(errors.max(), rel=1e-12)
    assert history["test_error"][0] == pytest.approx(((X @ w.mean(axis=0)[:4] + w.mean(axis=0)[4] - y) ** 2).mean(), rel=1e-12)


def test_seconds_before_a_checkpoint_count(tmp_path):
    path = tmp_path / "run.ckpt"
    before = run(checkpoint=path).history["seconds"]
    with np.load(path) as file:
        kept = file["history.seconds"]
    np.testing.assert_array_equal(kept, before)
    assert (np.diff(run(rounds=9, resume=path).history["seconds"]) >= 0).all()


def test_agents_that_agree_have_their_point_as_mean_and_no_disagreement():
    for agents in (3, 6, 7, 49):
        for dtype in (np.float32, np.float64):
            point = np.random.default_rng(agents).standard_normal(100).astype(dtype)
            w = np.tile(point, (agents, 1))
            np.testing.assert_array_equal(agents_mean(w), point)
            assert disagreement(w, agents_mean(w)) == 0
