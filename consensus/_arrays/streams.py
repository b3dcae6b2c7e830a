"""Random numbers by a key and a counter, such as (seed, agent) and round, from one generator that is set anew."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

_here = threading.local()


def stream(key: Sequence[int], counter: Sequence[int] = (0, 0, 0, 0)) -> np.random.Generator:
    """Return a generator at the beginning of a stream of Philox, until the thread asks for the next one.

    It draws what ``np.random.Generator(np.random.Philox(key=key, counter=counter))`` does, which takes several times as long
    to make as a row of a batch to draw.

    Parameters
    ----------
    key : sequence of int
        Two numbers, at least 0.
    counter : sequence of int
        Four numbers, at least 0.

    Returns
    -------
    numpy.random.Generator
        The thread's own, to be used up before the next call.
    """
    if not hasattr(_here, "generator"):
        _here.generator = np.random.Generator(np.random.Philox(0))
        _here.state = _here.generator.bit_generator.state
        _here.state |= {"buffer_pos": 4, "has_uint32": 0}  # nothing is left of another stream
    _here.state["state"] = {"key": np.array(key, np.uint64), "counter": np.array(counter, np.uint64)}
    _here.generator.bit_generator.state = _here.state
    generator: np.random.Generator = _here.generator
    return generator
