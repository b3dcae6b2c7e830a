"""PyTorch's schedulers as rules: the learning rates of an optimiser in a training loop."""

import dataclasses
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import numpy as np
import pytest

import consensus
import topologies
from consensus.solvers import DGD
from consensus.step_sizes import CosineAnnealing, StepDecay, TorchSchedule, Warmup, checked, value_at
from consensus.testing import check_solver
from tests.helpers.refusals import refusals

torch = pytest.importorskip("torch")
from torch.optim import lr_scheduler  # noqa: E402

ROUNDS = 30
SCHEDULES = {
    "ConstantLR": {"factor": 0.5, "total_iters": 4},
    "CosineAnnealingLR": {"T_max": 10, "eta_min": 0.01},
    "CosineAnnealingWarmRestarts": {"T_0": 5, "T_mult": 2},
    "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 5, "mode": "triangular2"},
    "ExponentialLR": {"gamma": 0.9},
    "LambdaLR": {"lr_lambda": lambda n: 1 / (1 + n) ** 0.3},
    "LinearLR": {"start_factor": 0.2, "total_iters": 6},
    "MultiStepLR": {"milestones": [4, 9], "gamma": 0.3},
    "MultiplicativeLR": {"lr_lambda": lambda n: 0.95},
    "OneCycleLR": {"max_lr": 0.5, "total_steps": ROUNDS},
    "PolynomialLR": {"total_iters": 20, "power": 2.0},
    "StepLR": {"step_size": 7, "gamma": 0.5},
}


def in_a_loop(make, rounds=ROUNDS, initial=0.2):
    """The rate that each of an optimiser's steps meets."""
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight], lr=initial)
    scheduler, rates = make(optimizer), []
    for _ in range(rounds):
        optimizer.zero_grad()
        (weight**2).sum().backward()
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def two(optimizer):
    parts = lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5), lr_scheduler.CosineAnnealingLR(optimizer, 25)
    return lr_scheduler.SequentialLR(optimizer, parts, milestones=[5])


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_those_of_a_training_loop(name):
    kind, settings = getattr(lr_scheduler, name), SCHEDULES[name]
    wanted = in_a_loop(lambda optimizer: kind(optimizer, **settings), ROUNDS - (name == "OneCycleLR"))
    for rule in (TorchSchedule(kind, 0.2, **settings), TorchSchedule(name, 0.2, **settings)):
        assert [rule(n) for n in range(len(wanted))] == wanted
        assert type(rule(3)) is float


def test_every_scheduler_of_one_optimiser_is_tried():
    with pytest.raises(ValueError, match="scheduler of TorchSchedule must be one of") as caught:
        TorchSchedule("Cosine", 0.1)
    listed = {name for name in dir(lr_scheduler) if f"'{name}'" in str(caught.value)} - {"ChainedScheduler", "SequentialLR"}
    assert listed - {"ReduceLROnPlateau"} == set(SCHEDULES)


def test_functions_make_schedulers_in_a_row():
    assert [TorchSchedule(two, 0.2)(n) for n in range(ROUNDS)] == in_a_loop(two)


def test_rates_are_those_of_the_package_s_own_rules():
    cosine, steps = TorchSchedule("CosineAnnealingLR", 0.4, T_max=20), TorchSchedule("StepLR", 0.4, step_size=6)
    for n in range(21):
        assert cosine(n) == pytest.approx(CosineAnnealing(0.4, 20)(n), rel=0, abs=1e-12)
        assert steps(n) == pytest.approx(StepDecay(0.4, 6)(n), rel=1e-12)
    assert Warmup(cosine, 5)(1) == 0.4 * cosine(1)


@pytest.mark.slow
def test_any_round_may_be_asked_for_first_by_any_thread():
    wanted = in_a_loop(lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 777), 1000)
    rule = TorchSchedule("CosineAnnealingLR", 0.2, T_max=777)
    assert [rule(n) for n in (999, 0, 500)] == [wanted[n] for n in (999, 0, 500)]
    other = TorchSchedule("CosineAnnealingLR", 0.2, T_max=777, eta_min=0)
    with ThreadPoolExecutor(4) as pool:
        for seen in pool.map(lambda _: [other(n) for n in range(1000)], range(4)):
            assert seen == wanted


def test_settings_are_a_value():
    rule = TorchSchedule(lr_scheduler.MultiStepLR, 0.1, milestones=[3, 5])
    assert repr(rule) == "TorchSchedule('MultiStepLR', 0.1, milestones=[3, 5])"
    for same in (eval(repr(rule)), pickle.loads(pickle.dumps(rule)), TorchSchedule("MultiStepLR", 0.1, milestones=[3, 5])):
        assert same == rule
        assert hash(same) == hash(rule)
        assert [same(n) for n in range(8)] == [rule(n) for n in range(8)]
    assert rule != TorchSchedule("MultiStepLR", 0.1, milestones=[3, 6])
    assert rule != TorchSchedule("MultiStepLR", 0.2, milestones=[3, 5])
    back = pickle.loads(cloudpickle.dumps(TorchSchedule("LambdaLR", 0.1, lr_lambda=lambda n: 1 / (n + 1))))
    assert back(4) == 0.1 * (1 / 5)
    with pytest.raises(AttributeError, match="TorchSchedule is frozen"):
        rule.initial = 0.3


def test_solvers_take_it():
    rule = TorchSchedule("CosineAnnealingLR", 0.02, T_max=5)
    assert checked(rule) is rule
    assert value_at(rule, 5) == pytest.approx(0, abs=1e-17)
    check_solver(DGD(rule))
    assert dataclasses.replace(DGD(0.1), step_size=rule) == DGD(rule)


def test_a_run_is_resumed_with_it(tmp_path):
    centres = np.arange(4.0)[:, None]
    problem = consensus.Problem.from_functions(
        lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=4, parameters=1
    )
    path, network = tmp_path / "run.ckpt", topologies.ring(4)
    solver = DGD(TorchSchedule("ExponentialLR", 0.05, gamma=0.9))
    whole = consensus.solve(problem, network, solver, rounds=9)
    consensus.solve(problem, network, solver, rounds=4, checkpoint=path)
    np.testing.assert_array_equal(consensus.solve(problem, network, solver, rounds=9, resume=path).w, whole.w)
    with pytest.raises(ValueError, match="is a checkpoint of another run: solver"):
        consensus.solve(problem, network, DGD(TorchSchedule("ExponentialLR", 0.05, gamma=0.8)), rounds=9, resume=path)


def test_without_pytorch_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"TorchSchedule needs torch: pip install 'consensus-opt\[torch\]'"):
        TorchSchedule("ExponentialLR", 0.1, gamma=0.5)


test_refusals = refusals(
    (lambda: TorchSchedule("ExponentialLR", 0, gamma=0.9), ValueError, "initial of TorchSchedule must be a finite number > 0"),
    (lambda: TorchSchedule("ReduceLROnPlateau", 0.1), ValueError, "cannot be ReduceLROnPlateau, which needs measurements"),
    (lambda: TorchSchedule(lr_scheduler.ReduceLROnPlateau, 0.1), ValueError, "cannot be ReduceLROnPlateau"),
    (lambda: TorchSchedule("ExponentialLR", 0.1), TypeError, "gamma"),
    (lambda: TorchSchedule("ExponentialLR", 0.1, gama=1), TypeError, "gama"),
    (lambda: TorchSchedule(3, 0.1), TypeError, "scheduler of TorchSchedule must be a class of torch.optim.lr_scheduler, .*3"),
    (lambda: TorchSchedule(lambda _: 0.1, 0.1), TypeError, "must make a scheduler of PyTorch; it made 0.1"),
    (lambda: TorchSchedule("StepLR", 0.1, step_size=2)(-1), ValueError, "round must be a whole number >= 0; got -1"),
    (lambda: TorchSchedule("OneCycleLR", 0.1, max_lr=1, total_steps=5)(9), ValueError, "has no step size for round 6: Tried"),
)
