"""Callbacks, metrics and time budgets: their arguments, their results, and what is rejected."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

import consensus
import topologies
from consensus.solvers import DGD, AdaptiveNEXT
from tests.helpers.problems import problem

RING = topologies.ring(6)


def run(rounds=6, solver=None, record_every=1, **options):
    return consensus.solve(problem(), RING, solver or DGD(0.05), rounds=rounds, record_every=record_every, **options)


def test_a_callback_cannot_change_the_run():
    infos, p = [], problem()

    def meddle(info):
        infos.append((info, info.w, info.mean, info.row))
        for array in (info.w, info.mean, info["agent_objective"]):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
        with pytest.raises(TypeError):
            info.row["objective"] = 0.0
        with pytest.raises(AttributeError):
            info.round = 0
        info.w.flags.writeable = True  # of a copy
        info.w[...] = 0
        assert info.problem is p

    result = consensus.solve(p, RING, DGD(0.05), rounds=4, record_every=1, callbacks=[meddle], agent_objectives=True)
    np.testing.assert_array_equal(result.w, run(4).w)
    np.testing.assert_array_equal(result.history["objective"], run(4).history["objective"])
    for number, (info, _, mean, row) in enumerate(infos):
        assert info.history is result.history
        assert info["objective"] == row["objective"] == result.history["objective"][number]
        np.testing.assert_array_equal(mean, run(number).mean)


def test_a_missing_column_is_named():
    with pytest.raises(KeyError, match="no column 'loss'; there are round, objective, stationarity"):
        run(callbacks=[lambda info: info["loss"]])


def test_all_callbacks_are_called_and_the_first_reason_counts():
    called = []

    def stop(reason):
        return lambda info: called.append(info.round) or (reason if info.round == 4 else None)

    result = run(record_every=2, callbacks=[stop(None), stop("this"), stop("that")])
    assert (result.reason, result.rounds) == ("this", 4)
    assert called == [0, 0, 0, 2, 2, 2, 4, 4, 4]
    called.clear()
    assert run(exchanges=4, callbacks=[stop("this")]).reason == "4 exchanges done at round 4"
    assert called == [0, 1, 2, 3, 4]
    result = run(callbacks=[lambda info: "no need"])
    assert (result.rounds, result.reason, result.history["round"].tolist()) == (0, "no need", [0])


@pytest.mark.parametrize("odd", [0, False, True, "", 1.5, b"stop", ["stop"]])
def test_a_reason_must_be_a_text(odd):
    def looks(info):
        return odd if info.round == 2 else None

    message = r"^callbacks\[1\], looks, must return None, or the reason to stop as a text; got "
    with pytest.raises(TypeError, match=message) as caught:
        run(callbacks=[lambda info: None, looks])
    assert caught.value.history["round"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, BaseException])
@pytest.mark.parametrize("at", [0, 2])
def test_an_exception_of_a_callback_has_the_history(error, at):
    def fails(info):
        if info.round == at:
            raise error("enough")

    with pytest.raises(error) as caught:
        run(callbacks=[fails])
    assert caught.value.history["round"].tolist() == list(range(at + 1))
    if error is KeyboardInterrupt:
        np.testing.assert_array_equal(caught.value.result.w, run(at).w)
    else:
        assert caught.value.args == ("enough",)
        assert caught.value.__notes__ == [f"in callbacks[0], fails, at round {at}"]


def test_an_exception_with_an_attribute_history_keeps_it():
    class Own(Exception):
        history = property(lambda self: "mine")

    def fails(info):
        raise Own

    with pytest.raises(Own) as caught:
        run(callbacks=[fails])
    assert caught.value.history == "mine"


def test_a_resumed_run_calls_with_the_row_of_the_checkpoint(tmp_path):
    path, rounds = tmp_path / "run.ckpt", []
    stops = [lambda info: rounds.append(info.round) or ("enough" if info.round >= 4 else None)]
    assert run(callbacks=stops, checkpoint=path).rounds == 4
    assert run(callbacks=stops, resume=path).reason == "enough"
    assert rounds == [0, 1, 2, 3, 4, 4]
    rounds.clear()
    run(rounds=5, record_every=3, checkpoint=path)
    run(rounds=9, record_every=3, resume=path, callbacks=[lambda info: rounds.append(info.round)])
    assert rounds == [6, 9]  # round 5, the last of the shorter run, is not recorded in the longer one


METRICS = {"val/norm": np.linalg.norm, "zero": lambda mean: np.float32(0), "0-d": np.max, "nan": lambda mean: np.nan}


def test_metrics_are_the_last_columns_and_measured_at_the_mean():
    solver = AdaptiveNEXT()
    result = run(solver=solver, metrics=METRICS)
    assert list(result.history) == [*run(solver=solver).history, *METRICS]
    assert result.history["val/norm"][-1] == np.linalg.norm(result.mean)
    assert result.history["0-d"][-1] == result.mean.max()
    assert np.isnan(result.history["nan"]).all()
    assert all(result.history[name].dtype == float for name in METRICS)
    with pytest.raises(ValueError, match="read-only"):
        run(metrics={"meddle": lambda mean: mean.fill(0)})


@pytest.mark.parametrize(
    "odd", [None, "0.5", np.zeros(2), [0.5], 1j, np.complex128(1), np.str_("3"), {}, 10**400, np.datetime64("2020")], ids=repr
)
def test_a_metric_must_return_a_number(odd):
    with pytest.raises(TypeError, match=r"^metrics\['accuracy'\] must return a number; got "):
        run(metrics={"norm": np.linalg.norm, "accuracy": lambda mean: odd})


@pytest.mark.parametrize(
    "name", ["round", "objective", "seconds", "bytes", "test_error", "agent_objective", "agent_objective_0", "tau_least"]
)
def test_metrics_cannot_have_the_names_of_other_columns(name):
    with pytest.raises(ValueError, match=f"^metrics must have names of their own; '{name}' is taken, as are round, objective"):
        run(solver=AdaptiveNEXT(), metrics={name: np.linalg.norm})


def test_a_resumed_run_must_have_the_columns_of_its_checkpoint(tmp_path):
    path, metrics = tmp_path / "run.ckpt", {"val/norm": np.linalg.norm, "first": lambda mean: mean[0]}
    run(metrics=metrics, checkpoint=path)
    longer = run(9, metrics=metrics, resume=path)
    np.testing.assert_array_equal(longer.history["val/norm"], run(9, metrics=metrics).history["val/norm"])
    turned = run(9, metrics=dict(reversed(metrics.items())), resume=path)
    np.testing.assert_array_equal(turned.history["first"], longer.history["first"])
    message = r"run\.ckpt has .*only there \['first', 'val/norm'\], only here \[\]; give the same metrics"
    with pytest.raises(ValueError, match=message):
        run(9, resume=path)
    with pytest.raises(ValueError, match=r"only there \['first'\], only here \['agent_objective', 'last'\]"):
        run(9, resume=path, metrics={"val/norm": np.linalg.norm, "last": lambda mean: mean[-1]}, agent_objectives=True)


def test_the_clock_excludes_callbacks_and_metrics(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)  # nothing else takes time

    def sleep(_):
        clock.now += 100.0

    result = run(rounds=4, callbacks=[sleep], metrics={"slow": lambda mean: sleep(mean) or 0.0}, seconds=0.2)
    assert result.rounds == 4
    assert clock.now >= 500.0
    assert not result.history["seconds"].any()


@pytest.mark.parametrize(("option", "odd", "error", "message"), [
    *[
        ("callbacks", odd, TypeError, r"callbacks must be a list of functions f\(info\), such as \[print\]; got ")
        for odd in (print, None, "print", {print}, [3], [print, "x"], iter([print]), [DGD])
    ],
    *[
        ("metrics", odd, TypeError, r"metrics must be a mapping of names to functions f\(mean\), such as .*; got ")
        for odd in (print, [print], "x", {3: print}, {"": print}, {"x": 3}, {"x": DGD})
    ],
    *[
        ("seconds", odd, ValueError, "seconds must be a finite number > 0; got ")
        for odd in (0, -1.0, np.inf, np.nan, "1", True, [1.0])
    ],
    *[("exchanges", odd, ValueError, "exchanges must be a whole number >= 1; got ") for odd in (0, -3, 2.5, True)],
])  # fmt: skip
def test_bad_options_are_rejected(option, odd, error, message):
    with pytest.raises(error, match=f"^{message}"):
        run(**{option: odd})
