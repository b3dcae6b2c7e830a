"""The page on callbacks, run as it stands, with stand-ins for the libraries that it logs to."""

import re
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "callbacks.md").read_text()
STOPPING, BEST, TENSORBOARD, MLFLOW, WANDB = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


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


@pytest.mark.parametrize("code", [TENSORBOARD, MLFLOW, WANDB], ids=["TensorBoard", "MLflow", "Weights & Biases"])
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
