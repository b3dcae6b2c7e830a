"""The page on callbacks, run as it stands, with stand-ins for the libraries that it names and with installed ones."""

import re
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.helpers.turns import with_slow

PAGE = (Path(__file__).parents[2] / "docs" / "callbacks.md").read_text()
OPTIONS, STOPPING, BEST, TENSORBOARD, MLFLOW, WANDB, OPTUNA = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_options_in_two_objects_stop_where_a_rule_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(OPTIONS, {})
    assert capsys.readouterr().out.startswith("objective <= 1e-06: it is")


class Writer:
    """Keeps what it is told as TensorBoard, MLflow and Weights & Biases are told it."""

    def __init__(self, folder=None):
        self.folder, self.logged, self.params, self.closed = folder, [], {}, False

    def add_scalar(self, tag, scalar_value, global_step=None):
        self.logged.append((tag, float(scalar_value), global_step))

    def log_metric(self, key, value, step=None):
        self.logged.append((key, float(value), step))

    def log_param(self, key, value):
        self.params[key] = value

    def log(self, data, step=None):
        for key, value in data.items():
            self.logged.append((key, float(value), step))

    @property
    def summary(self):
        return self.params

    def close(self):
        self.closed = True


@pytest.fixture
def page():
    names = {}
    exec(STOPPING, names)
    return names


def test_a_run_is_stopped_by_what_was_measured(page):
    history = page["result"].history
    assert re.fullmatch(r"accuracy 0\.9\d\d at round \d+", page["result"].reason)
    assert history["accuracy"][-1] > 0.95 >= history["accuracy"][-2] or history["disagreement"][-2] >= 0.01


def test_the_best_point_is_kept_and_a_rule_stops_the_run(page):
    exec(BEST, page)
    result = page["result"]
    assert result.reason.startswith("epochs >= 20: it is ")
    assert page["accuracy"](result.best.mean) == 1 - result.best.value


@pytest.mark.parametrize(
    "code", with_slow([TENSORBOARD, MLFLOW, WANDB], MLFLOW, WANDB), ids=["TensorBoard", "MLflow", "Weights & Biases"]
)
def test_every_number_is_logged_with_its_round(code, page, monkeypatch):
    writer = Writer()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=lambda folder: writer))
    monkeypatch.setitem(sys.modules, "mlflow", writer)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **_: nullcontext(writer)))
    monkeypatch.setattr(Writer, "start_run", nullcontext, raising=False)
    exec(code, page)
    history = page["consensus"].solve(page["problem"], page["network"], rounds=50, record_every=10).history
    assert [(name, round) for name, _, round in writer.logged] == [(name, 10 * k) for k in range(6) for name in history]
    for name in set(history) - {"seconds"}:
        assert [value for tag, value, _ in writer.logged if tag == name] == history[name].tolist()
    assert writer.closed or writer.params == {"stopped because": "all 50 rounds done"}


def objectives(page, step_size):
    solver = page["consensus"].solvers.DGD(step_size)
    return page["consensus"].solve(page["problem"], page["network"], solver, rounds=50, record_every=10).history["objective"]


class Study:
    """Tries two step sizes as Optuna does, and prunes the run of the second at round 20."""

    def __init__(self):
        self.ends, self.reported = [], []

    def suggest_float(self, name, low, high, log):
        return [0.5, 0.01][len(self.ends)]

    def report(self, value, step):
        self.reported.append((len(self.ends), step, value))

    def should_prune(self):
        return len(self.ends) == 1 and self.reported[-1][1] == 20

    def optimize(self, objective, n_trials):
        for _ in range(2):
            try:
                self.ends.append(objective(self))
            except StopIteration as pruned:
                self.ends.append(pruned)

    best_params = None


def test_a_run_is_pruned_in_its_middle(page, monkeypatch):
    study = Study()
    stand_in = SimpleNamespace(TrialPruned=StopIteration, create_study=lambda sampler, pruner: study)
    stand_in.samplers = SimpleNamespace(TPESampler=lambda seed: None)
    stand_in.pruners = SimpleNamespace(MedianPruner=lambda: None)
    monkeypatch.setitem(sys.modules, "optuna", stand_in)
    exec(OPTUNA, page)
    whole, pruned = objectives(page, 0.5), objectives(page, 0.01)
    assert study.reported[:6] == [(0, 10 * k, value) for k, value in enumerate(whole)]
    assert study.reported[6:] == [(1, 10 * k, value) for k, value in enumerate(pruned[:3])]
    assert study.ends[0] == whole[-1]
    assert type(study.ends[1]) is StopIteration


def test_optuna_keeps_what_was_reported_and_prunes(page):
    optuna = pytest.importorskip("optuna")
    exec(OPTUNA, page)
    states = [trial.state for trial in page["study"].trials]
    assert set(states) == {optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED}
    for trial in page["study"].trials[:3]:  # the median needs some trials before it prunes
        reported = objectives(page, trial.params["step_size"])
        assert list(trial.intermediate_values.values()) == reported.tolist()
        assert trial.value == reported[-1]


def test_tensorboard_reads_what_was_logged(page, tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    pytest.importorskip("torch")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.chdir(tmp_path)
    exec(TENSORBOARD, page)
    events = EventAccumulator("runs/ring")
    events.Reload()
    history = page["consensus"].solve(page["problem"], page["network"], rounds=50, record_every=10).history
    assert set(events.Tags()["scalars"]) == set(history)
    logged = [(event.step, event.value) for event in events.Scalars("objective")]
    assert logged == [(10 * k, pytest.approx(value, rel=1e-6)) for k, value in enumerate(history["objective"])]
