"""The time of a gradient of one network whose layers are split over workers, and what it would be on other clusters."""

import ctypes
import math
import multiprocessing
import os
import time
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import numpy as np

from consensus._arrays.parallel import one_blas_thread
from consensus.centralized import LayerParallel
from consensus.costs import Cluster
from consensus.history import History
from consensus.models import ResNet
from consensus.workers.groups import process_group
from experiments.shared import reading
from experiments.shared.timing import timed

SERIAL, ON = "seconds of a gradient, serial", "seconds of a gradient, workers: "  # columns of the history
CPU = ", of a processor"  # added to these: without the seconds in which others had the processors, or the slabs waited
SENT = "bytes sent by all, "  # before these
EMPTY, STATE = "seconds of an empty message", "seconds of a state's message"
HERE, NETWORK = "pipes here", "50 µs, 10 Gbit/s"  # clusters


class Sizes(NamedTuple):
    """Of a network, its samples and the V-cycles of a gradient."""

    layers: int
    width: int
    samples: int
    iterations: int

    def network(self):
        return ResNet(20, self.width, self.layers, 5)

    def split(self, workers, **settings):
        """On so many workers, with two levels unless other ``settings`` say otherwise."""
        return LayerParallel(self.network(), workers, **{"levels": 2, "iterations": self.iterations} | settings)


def seconds(sizes, repeats, cores):
    """The history of gradients, serial and on 1, 2, 4, ... workers of this machine, and messages, in turns."""
    network = sizes.network()
    models = {SERIAL: network} | {f"{ON}{2**k}": sizes.split(2**k) for k in range(cores.bit_length())}
    return gradients(models, *given(network, sizes.samples), sizes.samples * sizes.width * 8, repeats)


def given(network, samples):
    """Parameters, features and cotangents of one agent."""
    rng = np.random.default_rng(0)
    x, u = (rng.standard_normal((1, samples, count)) for count in (network.features, network.outputs))
    return network.init(rng)[None], x, u


def gradients(models, w, x, u, message, repeats):
    """A history of seconds of gradients by the models, the first one serial, and of messages, empty or of so many bytes."""
    history, workers = History(), {}
    with ExitStack() as stack:
        stack.enter_context(one_blas_thread)
        for model in list(models.values())[1:]:
            stack.enter_context(model)
        echo = stack.enter_context(echoing())
        content = bytes(message)
        for repeat in range(-1, repeats):  # the first starts the workers, and fills the states that they keep
            row = {"round": repeat}
            for name, model in models.items():
                before = workers.get(name) and [processor(pid) for pid in workers[name]]
                others = {child.pid for child in multiprocessing.active_children()}
                sent = getattr(model, "crossed_bytes", 0)
                row[name] = timed(model.vjp, w, x, u)[0]
                row[SENT + name] = getattr(model, "crossed_bytes", 0) - sent
                if before is None:
                    new = {child.pid for child in multiprocessing.active_children()} - others
                    workers[name] = sorted(new) or [os.getpid()]
                else:
                    row[name + CPU] = max(processor(pid) - was for pid, was in zip(workers[name], before, strict=True))
            row |= {EMPTY: timed(echo, b".")[0] / 2, STATE: timed(echo, content)[0] / 2}
            if repeat >= 0:
                history.append(row)
    return history


def processor(pid):
    """Seconds of a processor that a process has had so far; NaN where the system does not say."""
    clock = ctypes.c_int()
    try:
        error = ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock))
    except AttributeError:
        return math.nan
    return math.nan if error else time.clock_gettime(clock.value)


@contextmanager
def echoing():
    """A function that sends bytes to another process by a pipe, and waits for the same ones."""
    with process_group(_echo, [None], lambda pipes: pipes[0].send_bytes(b"")) as (_, (pipe,)):

        def there_and_back(content):
            pipe.send_bytes(content)
            pipe.recv_bytes()

        yield there_and_back


def _echo(_, pipe):
    while content := pipe.recv_bytes():
        pipe.send_bytes(content)


def measured(history):
    """Medians of the seconds of a gradient by the clock, and of a processor (of the busiest slab): by workers, 0 for serial."""
    columns = {0: SERIAL} | {int(name.removeprefix(ON)): name for name in history if name.startswith(ON) and CPU not in name}
    return [{count: float(np.median(history[name + of])) for count, name in columns.items()} for of in ("", CPU)]


def serial(history):
    """Seconds of a serial gradient: of a processor, by the clock where the system does not say."""
    clock, busy = measured(history)
    return clock[0] if math.isnan(busy[0]) else busy[0]


def clusters(history, sizes):
    """See :func:`machines`; a message is a state."""
    return machines(history, 6 * sizes.samples * sizes.network().parameters, sizes)


def machines(history, operations, sizes):
    """Machines with this one's speed in a serial gradient, of so many operations, its measured pipes or a network between them.

    Other work on this machine adds to the clock's seconds, so speeds are by the processor's, and messages are the fastest.
    """
    empty, whole = (float(np.min(history[name])) for name in (EMPTY, STATE))
    speed, bandwidth = operations / serial(history), 8 * sizes.samples * sizes.width / max(whole - empty, 1e-9)
    return {HERE: Cluster(empty, bandwidth, speed), NETWORK: Cluster(5e-5, 1.25e9, speed)}


def predicted(cluster, sizes):
    """``{workers: seconds}`` of a gradient from the states of the one before, with the best number of levels."""
    found, workers = {}, 1
    while sizes.layers % (4 * workers) == 0:
        most = sizes.split(workers, levels=None).levels
        loads = [sizes.split(workers, levels=levels).load(sizes.samples) for levels in range(2, most + 1)]
        found[workers] = min(float(cluster.seconds(load)[0]) for load in loads)
        workers *= 2
    return found


def paying(serial, seconds):
    """The fewest workers on which a gradient takes less than the serial one, None if there are none; the best; its speed-up."""
    first = min((workers for workers, there in seconds.items() if there < serial), default=None)
    best = min(seconds, key=seconds.get)
    return first, best, serial / seconds[best]


PAYING = {"pays from, workers": "d", "best, workers": "d", "speed-up": ".3g"}  # columns of a table of these


def in_the_paper(folder, named):
    """What is paid on the network, from the rows of the table; ``named`` returns how the names of a row's numbers begin."""
    found = {}
    for row in reading.rows(folder / "table.csv"):
        if row["cluster"] == NETWORK:
            first, best, gain = (row[column] for column in PAYING)
            numbers = {"pays": first or "no number of", "best": best, "gain": f"{float(gain):.1f}"}
            found |= {f"{named(row)}.{name}": number for name, number in numbers.items()}
    return found
