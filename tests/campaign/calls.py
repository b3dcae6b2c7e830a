"""Evaluate expressions in a process of their own, each within a time limit.

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
import warnings
from multiprocessing import get_context
from typing import NamedTuple

import cvxpy as cp
import matplotlib
import networkx as nx
import numpy as np
import pandas as pd
import scipy.sparse as sp

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
    """``text`` to evaluate, a call of ``target``; ``names`` are those that an error may name."""

    target: str
    text: str
    names: tuple = ()


class Answer(NamedTuple):
    """What a call ended with: its kind, and if it is a finding what it is, and where in the package."""

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
            message = f"{kind}: {' '.join(str(error).split())[:160]} ({wrong})"
            answer = Answer(kind, message, verdict.where(error)) if wrong else Answer(kind)
    for message, place in verdict.warned(caught)[:1] if not answer.finding else ():
        answer = Answer(answer.kind, message, place)
    return answer


@contextlib.contextmanager
def evaluator(seconds=SECONDS):
    """A function that gives the answer to a call, from a process that is replaced if it hangs or dies."""
    folder = tempfile.mkdtemp()
    server = _Server(folder)

    def answer(call):
        nonlocal server
        server.pipe.send(call)
        if not server.pipe.poll(seconds):
            found = Answer("hang", f"no answer after {seconds:g} s", call.target)
        else:
            try:
                return server.pipe.recv()
            except (EOFError, OSError):
                server.process.join()
                found = Answer("death", f"the process ended with exit code {server.process.exitcode}", call.target)
        server.end()
        server = _Server(folder)
        return found

    try:
        yield answer
    finally:
        server.end()
        shutil.rmtree(folder, ignore_errors=True)


class _Server:
    """A process that evaluates one call after another."""

    def __init__(self, folder):
        # Forks of a bare process that has imported this module: quick, and nothing of the caller's is in them.
        context = get_context("forkserver")
        context.set_forkserver_preload([__spec__.name])
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, folder))
        self.process.start()
        theirs.close()

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # with what it started
        except ProcessLookupError:
            self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe, folder):
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    matplotlib.use("Agg")
    os.chdir(tempfile.mkdtemp(dir=folder))
    while True:
        answer = evaluate(pipe.recv())
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
        for entry in os.scandir():
            shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
        pipe.send(answer)


if __name__ == "__main__":
    eval(sys.argv[1], dict(SCOPE))
