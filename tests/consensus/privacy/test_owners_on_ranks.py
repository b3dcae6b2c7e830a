"""Attacks on owners on ranks: all that one sends and what others write is searched for its numbers; seeds tell no noise."""

import json
import re

import numpy as np
import pytest

from tests.helpers.engine_harness import HERE, started
from tests.helpers.privacy_ranks import AGENTS

pytest.importorskip("cryptography")
pytestmark = pytest.mark.slow


def on_ranks(task, folder, ranks=3):
    done = started("mpi", ranks, HERE / "privacy_ranks.py", task, folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stdout + done.stderr


def numbers_of(text):
    return {float(number) for number in re.findall(r"\d+\.\d{7,}(?:e[-+]\d+)?", text)}


def test_nothing_that_is_sent_or_written_elsewhere_has_an_owners_numbers(tmp_path):
    report, said = on_ranks("searched", tmp_path)
    for name, ranks in report.items():
        for secrets, numbers, digests in ranks:
            assert secrets > 100, name
            if name.endswith("hidden"):
                assert (numbers, digests) == (0, 0), name
            else:  # the search finds what is sent where nothing is promised
                assert numbers > 10, name
                assert digests == AGENTS // 3, name
    written = {rank: list((tmp_path / f"disk-{rank}").glob("*True*")) for rank in range(3)}
    for rank in range(3):
        others = b"".join(path.read_bytes() for other, paths in written.items() if other != rank for path in paths)
        tables = numbers_of("".join(path.read_text() for paths in written.values() for path in paths if path.suffix == ".csv"))
        assert len(tables) > 50
        for file in tmp_path.glob(f"secrets-{rank}-*-True.npy"):
            secrets = np.load(file)
            assert not [number for number in secrets if number.tobytes() in others]
            # A table has all digits of its numbers, some of which are times: fewer digits would meet a secret's by chance.
            assert not tables & set(abs(secrets))
            assert not {f"{number:.7e}" for number in numbers_of(said)} & {f"{abs(number):.7e}" for number in secrets}


def test_seeds_tell_no_noise_on_ranks_and_resumed_runs_draw_anew(tmp_path):
    report, _ = on_ranks("fresh", tmp_path)
    for said in report.values():
        first, second = map(np.array, said["runs"])
        assert abs(first - second).max() > 1e-2
        # The attack: what every agent sends, less what the seed gives where all agents are in one process.
        alone = np.array(said["alone"])
        assert abs(first - alone).max() > 1e-2
        again, once_more = map(np.array, said["resumed"])
        assert abs(again - once_more).max() > 1e-2
        assert said["gradients"] == [5, 5]  # those before the checkpoint, too
        assert np.isnan(said["objective"]).all()


def test_the_noise_of_owners_has_the_law_of_the_simulation(tmp_path):
    on_ranks("law", tmp_path)
    drawn = np.load(tmp_path / "law.npy")
    laplacian = AGENTS * np.eye(AGENTS) - 1  # of the complete graph
    expected = 4.0 * np.eye(AGENTS) + 9.0 * laplacian
    count = drawn.shape[1]
    assert abs(drawn @ drawn.T / count - expected).max() < 6 * 2 * expected.max() / np.sqrt(count)
    assert abs(drawn.sum(axis=0)).std() < 2 * np.sqrt(4.0 * AGENTS)


def test_what_needs_the_data_is_refused(tmp_path):
    said, _ = on_ranks("refused", tmp_path)
    for argument, texts in zip(("tolerance", "stop", "keep", "agent_objectives", "test"), said):
        assert all(f"the argument {argument} needs it: leave it out" in text for text in texts)
    assert all("test_error" in text and "needs it" not in text for text in said[-1])  # the remedy


def test_errors_of_an_owners_data_are_told_to_it_alone(tmp_path):
    (first, own, third), rounds, good = on_ranks("told", tmp_path)[0]
    assert "takes targets in {0, 1}" in own
    assert "7.65" in own
    assert first == third
    assert first == "ValueError: what it calls consensus.solve with is rejected, and its own process says why, on rank 1 of 3"
    assert rounds == ["ValueError: rounds must be a whole number >= 0; got -1"] * 3
    assert good == ["all 2 rounds done"] * 3
