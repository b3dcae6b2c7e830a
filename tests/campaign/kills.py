"""Kill and stop runs at random times: what is resumed ends at the bits of a run never stopped, and nothing is left behind."""

import os
import random
import signal
import tempfile
import time
from pathlib import Path

from tqdm import tqdm

from tests.campaign import child
from tests.campaign.outcome import Outcome
from tests.campaign.started import Started, assert_same, read

ENGINES = ("stacked", "processes:1", "processes:2", "processes:3", "mpi")
HITS = ("SIGKILL", "SIGKILL", "SIGTERM", "SIGINT", "SIGSTOP")
ENDING = 60.0  # seconds that a run may take to end after a hit


def search(count, seed=0):
    """Runs that are hit again and again, ``count`` times in all, and then left to end."""
    rng, findings, hits, number = random.Random(seed), [], 0, 0
    reference = child.run()
    with tqdm(total=count, desc="kills", disable=None) as bar:
        while hits < count:
            engine = ENGINES[number % len(ENGINES)]
            times = min(rng.choice((1, 2, 3)), count - hits)
            with tempfile.TemporaryDirectory() as folder:
                findings += [f"{engine}, run {number}: {text}" for text in _one(engine, times, rng, Path(folder), reference)]
            hits, number = hits + times, number + 1
            bar.update(times)
    return Outcome(hits, findings, f"{number} runs")


def _one(engine, times, rng, folder, reference):
    """Hit one run ``times`` times, let it end, and compare; what is wrong, in words."""
    wrong = []
    for _ in range(times):
        if (folder / "result.npz").exists():
            break
        name = rng.choice(HITS)
        wrong += [f"{name}: {text}" for text in _hit(engine, name, rng, folder)]
    run = _start(engine, folder)
    code = run.wait(ENDING)
    wrong += [f"at the end: left {text}" for text in run.left(engine != "mpi")]
    if code != 0:
        return [*wrong, f"resumed run ended with {code}: {run.said()[-300:]!r}"]
    try:
        assert_same(read(folder / "result.npz"), reference)
    except AssertionError as error:
        wrong.append(f"other bits than a run never stopped: {' '.join(str(error).split())[:200]}")
    files = {path.name for path in folder.iterdir()} - {"result.npz", "run.ckpt", "run.ckpt.history.csv", "stderr"}
    return [*wrong, f"left files {sorted(files)}"] if files else wrong


def _start(engine, folder):
    return Started(folder, "tests.campaign.child", folder, engine, ranks=2 if engine == "mpi" else None)


def _hit(engine, name, rng, folder):
    """Start the run, hit it or one of its processes once, and see how it ends."""
    run, number = _start(engine, folder), getattr(signal, name)
    time.sleep(rng.uniform(0.2, 2.5))
    victims = [run.process.pid] if engine == "stacked" else [run.process.pid, *run.others(b"")]
    victim = run.process.pid if name == "SIGINT" else rng.choice(victims)
    try:
        os.kill(victim, number)
        if name == "SIGSTOP":
            time.sleep(rng.uniform(0.1, 1.5))
            os.kill(victim, signal.SIGCONT)
    except ProcessLookupError:  # it had ended
        pass
    code = run.wait(ENDING)
    wrong = [] if code is not None else [f"still running {ENDING:g} s later"]
    if name == "SIGSTOP" and code not in (0, None):
        wrong.append(f"ended with {code} though it was only stopped for a moment: {run.said()[-300:]!r}")
    return wrong + [f"left {text}" for text in run.left(engine != "mpi")]
