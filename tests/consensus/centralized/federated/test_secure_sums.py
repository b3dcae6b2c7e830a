"""Federated averaging with masked sums: the server learns the sum in fixed point, exactly, and nothing else."""

import numpy as np
import pytest
from scipy.stats import chi2

import consensus
from consensus.centralized import SCAFFOLD, FedAdam, FedAvg, solve
from consensus.federated import base as federated
from consensus.privacy import SecureSums
from consensus.privacy.masks import Masks
from tests.helpers.problems import problem

pytest.importorskip("cryptography")
RIDGE = problem("squared", consensus.L2(0.1), scheme="sizes")
SYSTEMS = {"FedAvg": FedAvg, "SCAFFOLD": SCAFFOLD, "FedAdam": FedAdam}


@pytest.mark.parametrize("name", SYSTEMS)
def test_masks_change_nothing_but_the_rounding(name):
    settings = {"local_steps": 3, "seed": 2}
    plain, masked = (solve(RIDGE, SYSTEMS[name](0.05, secure=secure, **settings), rounds=40) for secure in (None, SecureSums()))
    np.testing.assert_allclose(masked.mean, plain.mean, rtol=0, atol=1e-10)
    assert not np.array_equal(masked.mean, plain.mean)
    again = solve(RIDGE, SYSTEMS[name](0.05, secure=SecureSums(), **settings), rounds=40)
    np.testing.assert_array_equal(again.w, masked.w)  # with other keys, and so other masks
    keys = 6 * 32 + 6 * 6 * 32  # each client's to the server, and all to each
    assert masked.history["bytes"][-1] == plain.history["bytes"][-1] + keys
    assert masked.history["exchanges"][-1] == plain.history["exchanges"][-1] == 40


def test_a_round_of_fedavg_is_the_sum_of_numbers_in_fixed_point():
    found = solve(RIDGE, FedAvg(0.05, local_steps=3, secure=SecureSums(30)), rounds=1, start=np.zeros(5)).mean
    shares, total = RIDGE.shards.sizes / 60, [0] * 5
    for agent in range(6):
        y = np.zeros(5)
        for _ in range(3):
            gradient = RIDGE.gradient(np.tile(y, (6, 1)))[agent] / shares[agent] + 0.1 * y
            y = y - 0.05 * gradient
        total = [so_far + int(np.rint(value * 2.0**30)) for so_far, value in zip(total, shares[agent] * y)]
    np.testing.assert_array_equal(found, np.array(total) / 2.0**30)


def test_the_server_sees_uniform_messages(monkeypatch):
    seen = []

    class Listening(Masks):
        def drawn(self, *arguments):
            masks = super().drawn(*arguments)
            seen.append(masks)
            return masks

    codes = []

    class Coding(SecureSums):
        def encode(self, *arguments):
            found = super().encode(*arguments)
            codes.append(found)
            return found

    monkeypatch.setattr(federated, "Masks", Listening)
    wide = problem("squared", consensus.L2(0.1), consensus.MLP([4, 60, 1]), "sizes")
    solve(wide, FedAvg(0.02, secure=Coding()), rounds=30)
    messages = np.concatenate([(code + mask).ravel() for code, mask in zip(codes, seen, strict=True)])
    assert len(messages) == 30 * 6 * 361
    for numbers, uniform in ((messages, True), (np.concatenate([code.ravel() for code in codes]), False)):
        counts = np.bincount(numbers.view(np.uint8), minlength=256)
        statistic = (np.square(counts - counts.mean()) / counts.mean()).sum()
        assert (statistic < chi2.ppf(1 - 1e-9, 255)) == uniform


def test_single_precision_sends_eight_bytes_a_number():
    shards = consensus.partition(RIDGE.shards.features[1].astype(np.float32), RIDGE.shards.targets[1, :, 0], 4)
    p = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards)
    plain, masked = (solve(p, FedAvg(0.05, secure=secure), rounds=3).history for secure in (None, SecureSums()))
    assert plain["bytes"][-1] == 3 * 2 * 4 * 5 * 4
    assert masked["bytes"][-1] == 3 * 4 * 5 * (4 + 8) + 4 * 32 + 4 * 4 * 32


def test_a_sum_of_one_client_is_refused():
    alone = consensus.Problem(
        consensus.Linear(4), consensus.SquaredLoss(), consensus.partition(np.ones((9, 4)), np.arange(9.0), 1)
    )
    with pytest.raises(ValueError, match="secure sums need two clients or more; the problem has one: give secure=None"):
        solve(alone, FedAvg(0.05, secure=SecureSums()), rounds=1)
    with pytest.raises(TypeError, match="secure must be"):
        FedAvg(0.05, secure=True)


def test_a_run_goes_on_with_new_keys_to_the_same_bits(tmp_path):
    system = FedAvg(0.05, secure=SecureSums())
    whole = solve(RIDGE, system, rounds=20)
    solve(RIDGE, system, rounds=11, checkpoint=tmp_path / "c")
    resumed = solve(RIDGE, system, rounds=20, resume=tmp_path / "c")
    np.testing.assert_array_equal(resumed.w, whole.w)
    assert resumed.history["bytes"][-1] == whole.history["bytes"][-1]
