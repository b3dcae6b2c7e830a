"""How a run with a server ends before its last round: as one without."""

import numpy as np
import pytest

import consensus
from consensus.centralised import FedAvg, solve

SYSTEM = FedAvg(0.2, 2)


def test_ctrl_c_gives_the_result_so_far_and_a_checkpoint_goes_on(problem, start, tmp_path):
    def stop(seen):
        if seen.round == 3:
            raise KeyboardInterrupt

    path = tmp_path / "run"
    with pytest.raises(consensus.Interrupted, match="resume=") as caught:
        solve(problem, SYSTEM, rounds=6, start=start, callbacks=[stop], checkpoint=path, every=2)
    partial = caught.value.result
    assert (partial.rounds, partial.reason) == (3, "stopped by the user")
    np.testing.assert_array_equal(partial.w, solve(problem, SYSTEM, rounds=3, start=start).w)
    again = solve(problem, SYSTEM, rounds=6, start=start, resume=path)
    np.testing.assert_array_equal(again.w, solve(problem, SYSTEM, rounds=6, start=start).w)


def test_an_error_has_the_history_so_far(problem, start):
    def fail(seen):
        if seen.round == 2:
            raise LookupError("of the user's")

    with pytest.raises(LookupError, match="of the user's") as caught:
        solve(problem, SYSTEM, rounds=6, start=start, callbacks=[fail])
    assert caught.value.history["round"].tolist() == [0, 1, 2]


def test_what_a_checkpoint_does_not_fit_is_refused(problem, start, tmp_path):
    solve(problem, SYSTEM, rounds=3, start=start, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="rounds must be at least the checkpoint's, 3; got 2"):
        solve(problem, SYSTEM, rounds=2, start=start, resume=tmp_path / "run")
    with pytest.raises(ValueError, match="a checkpoint of another run: solver: "):
        solve(problem, FedAvg(0.1, 2), rounds=6, start=start, resume=tmp_path / "run")


def test_a_callback_ends_it_with_its_reason(problem, start):
    run = solve(problem, SYSTEM, rounds=6, start=start, callbacks=[lambda seen: "enough" if seen.round == 4 else None])
    assert (run.rounds, run.reason) == (4, "enough")
