"""Evaluate expressions in processes of their own, each within a time limit.

One by hand: ``python -m tests.campaign.calls 'topologies.ring(agents=-1)'``.
"""

import contextlib
import decimal
import fractions
import math
import os
import pathlib
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from multiprocessing import connection, get_context
from typing import NamedTuple

import cvxpy as cp
import matplotlib
import networkx as nx
import numpy as np
import pandas as pd
import scipy.sparse as sp
from tqdm import tqdm

import consensus
import topologies
from tests.campaign import files, good, verdict

SECONDS = 10.0  # of a call: a small one takes milliseconds
BYTES = 6 << 30  # of a process, so that a call that asks for too much fails instead of the machine
SCOPE = {
    "consensus": consensus, "cp": cp, "decimal": decimal, "files": files, "fractions": fractions, "good": good,
    "math": math, "np": np, "nx": nx, "pathlib": pathlib, "pd": pd, "sp": sp, "topologies": topologies,
}  # fmt: skip


class Call(NamedTuple):
    """``text`` to evaluate, in which the arguments ``odd`` of ``door`` are odd; ``names`` are those a refusal may name."""

    door: str
    text: str
    odd: tuple
    names: tuple


class Answer(NamedTuple):
    """What came of it: its kind, and if it is a finding what it is, and where in the package."""

    kind: str
    finding: str = ""
    where: str = ""


def evaluate(call):
    """The answer to one call, in this process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            eval(call.text, dict(SCOPE))
            answer = Answer("result")
        except (SystemExit, KeyboardInterrupt) as error:
            answer = Answer(type(error).__name__, "not an error for users", verdict.where(error))
        except BaseException as error:
            kind, wrong = type(error).__name__, verdict.judge(error, call.names)
            said = f"{kind}: {' '.join(str(error).split())[:160]} ({wrong})"
            answer = Answer(kind, said, verdict.where(error)) if wrong else Answer(kind)
    for said, place in verdict.warned(caught)[:1] if not answer.finding else ():
        answer = Answer(answer.kind, said, place)
    return answer


def run(calls, workers=2, seconds=SECONDS, bar="calls"):
    """Yield ``(call, answer)`` for all calls, in the order in which they end; a process that hangs or dies is replaced."""
    calls, folder = list(calls), tempfile.mkdtemp()
    hands = [_Hand(folder, seconds) for _ in range(min(workers, len(calls)))]
    try:
        left, done = iter(calls), 0
        for hand in hands:
            hand.give(next(left, None))
        with tqdm(total=len(calls), desc=bar, disable=None) as bar:
            while done < len(calls):
                connection.wait([hand.receiver for hand in hands if hand.call], timeout=0.2)
                for hand in hands:
                    answer = hand.answer()
                    if answer:
                        yield hand.call, answer
                        done += 1
                        bar.update()
                        hand.give(next(left, None))
    finally:
        for hand in hands:
            hand.end()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def asking(seconds=SECONDS):
    """A function that gives the answer to a call."""
    folder = tempfile.mkdtemp()
    hand = _Hand(folder, seconds)

    def ask(call):
        hand.give(call)
        while not (answer := hand.answer()):
            connection.wait([hand.receiver], timeout=0.2)
        return answer

    try:
        yield ask
    finally:
        hand.end()
        shutil.rmtree(folder, ignore_errors=True)


class _Hand:
    """A process that evaluates one call after another."""

    def __init__(self, folder, seconds):
        self.folder, self.seconds, self.call = folder, seconds, None
        self._start()

    def _start(self):
        # Forks of a bare process that has imported this module: quick, and nothing of the caller's is in them.
        context = get_context("forkserver")
        context.set_forkserver_preload([__spec__.name])
        self.receiver, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, self.folder))
        self.process.start()
        theirs.close()

    def give(self, call):
        self.call, self.begin = call, time.monotonic()
        if call:
            self.receiver.send(call)

    def answer(self):
        """The answer to the call given, if there is one by now."""
        if self.call is None:
            return None
        try:
            if self.receiver.poll():
                return self.receiver.recv()
        except (EOFError, OSError):
            self.end()
            code = self.process.exitcode
            self._start()
            return Answer("death", f"the process ended with exit code {code}", self.call.door)
        if time.monotonic() - self.begin > self.seconds:
            self.end()
            self._start()
            return Answer("hang", f"no answer after {self.seconds:g} s", self.call.door)
        return None

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # with what it started
        except ProcessLookupError:
            self.process.kill()
        self.process.join()
        self.receiver.close()


def _serve(sender, folder):
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    matplotlib.use("Agg")
    os.chdir(tempfile.mkdtemp(dir=folder))
    while True:
        call = sender.recv()
        answer = evaluate(call)
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
        for entry in os.scandir():
            shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
        sender.send(answer)


if __name__ == "__main__":
    eval(sys.argv[1], dict(SCOPE))
