"""Kill and stop runs at random times: resumed runs end with the same bits as a run without stops, and leave nothing behind.

As a script, the run: ``python -m tests.campaign.kills folder engine``; it goes on from the checkpoint if there is one.
"""

import os
import random
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from tqdm import tqdm

import consensus
from consensus.engines import MPI, Processes, Torch
from tests.campaign.outcome import Outcome
from tests.campaign.started import Started, assert_same, read, write

ENGINES = ("stacked", "processes:1", "processes:2", "processes:3", "mpi", "torch")
RANKS = {"mpi": MPI, "torch": Torch}
SIGNALS = ("SIGKILL", "SIGKILL", "SIGTERM", "SIGINT", "SIGSTOP")
ENDING = 60.0  # seconds that a run may take to end after a signal
PAUSE = 0.002  # seconds a round
STOPPED = 5  # exit code after ctrl-C
PART = re.compile(r"run\.ckpt\.500-\w+\.[01]-of-2")  # of a rank, after all rounds
KEPT = {"result.npz", "run.ckpt", "run.ckpt.history.csv", "stderr"}


def search(count, seed=0):
    """Runs that get signals again and again, ``count`` in all, and then may end."""
    rng, findings, sent, number = random.Random(seed), [], 0, 0
    reference = run()
    with tqdm(total=count, desc="kills", disable=None) as bar:
        while sent < count:
            engine, times = ENGINES[number % len(ENGINES)], min(rng.choice((1, 2, 3)), count - sent)
            with tempfile.TemporaryDirectory() as folder:
                findings += [f"{engine}, run {number}: {text}" for text in _one(engine, times, rng, Path(folder), reference)]
            sent, number = sent + times, number + 1
            bar.update(times)
    return Outcome(sent, findings, f"{number} runs")


def _one(engine, times, rng, folder, reference):
    """Send one run ``times`` signals, let it end, and compare; what is wrong, in words."""
    wrong = []
    for _ in range(times):
        if (folder / "result.npz").exists():
            break
        name = rng.choice(SIGNALS)
        wrong += [f"{name}: {text}" for text in _signalled(engine, name, rng, folder)]
    last = _start(engine, folder)
    code = last.wait(ENDING)
    wrong += [f"at the end: left {text}" for text in last.left(engine not in RANKS)]
    if code != 0:
        return [*wrong, f"resumed run ended with {code}: {last.output()[-300:]!r}"]
    try:
        assert_same(read(folder / "result.npz"), reference)
    except AssertionError as error:
        wrong.append(f"other bits than a run without stops: {' '.join(str(error).split())[:200]}")
    files = {path.name for path in folder.iterdir()} - KEPT
    parts = {name for name in files if PART.fullmatch(name)}
    if engine in RANKS and len(parts) == 2:  # of the last checkpoint
        files -= parts
    return [*wrong, f"left files {sorted(files)}"] if files else wrong


def _start(engine, folder):
    return Started(folder, "tests.campaign.kills", folder, engine, ranks=2 if engine in RANKS else None, engine=engine)


def _signalled(engine, name, rng, folder):
    """Start the run, send a signal to it or one of its processes, and see how it ends."""
    started = _start(engine, folder)
    time.sleep(rng.uniform(0.2, 2.5))
    alone = engine == "stacked" or name == "SIGINT"
    victim = started.process.pid if alone else rng.choice(started.processes())
    try:
        os.kill(victim, getattr(signal, name))
        if name == "SIGSTOP":
            time.sleep(rng.uniform(0.1, 1.5))
            os.kill(victim, signal.SIGCONT)
    except ProcessLookupError:  # it had ended
        pass
    code = started.wait(ENDING)
    wrong = [] if code is not None else [f"still running {ENDING:g} s later"]
    if name == "SIGSTOP" and code not in (0, None):
        wrong.append(f"ended with {code} though it was only stopped for a moment: {started.output()[-300:]!r}")
    if name == "SIGINT" and engine not in RANKS and code not in (0, STOPPED, None):
        last = started.output().strip().rpartition("\n")[2]
        wrong += [] if last.startswith("KeyboardInterrupt") else [f"ended with {code}: {last}"]  # it may still be importing
    return wrong + [f"left {text}" for text in started.left(engine not in RANKS)]


def run(engine="stacked", pause=0.0, **options):
    from tests.helpers import engine_cases  # whose folder `started` has put on the path

    return engine_cases.slow(pause).run(engine=engine, **options)


def main(folder, engine):
    kind, _, workers = engine.partition(":")
    path = folder / "run.ckpt"
    try:
        engine = Processes(int(workers)) if kind == "processes" else kind
        result = run(engine, PAUSE, checkpoint=path, resume=path if path.exists() else None)
    except consensus.Interrupted:
        sys.exit(STOPPED)
    if kind not in RANKS or RANKS[kind]().root:
        write(folder / "result.npz", result)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs are born ignoring
    main(Path(sys.argv[1]), sys.argv[2])
