"""PyTorch's generator under a seed of our own, for modules that draw random numbers."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType

import numpy as np

from consensus.frameworks._torch import GENERATORS_LOCK


@contextmanager
def seeded(torch: ModuleType, seed: int) -> Iterator[None]:
    """Let PyTorch's generator begin at ``seed``; afterwards it goes on as if nothing had been drawn."""
    generator = torch.default_generator
    with GENERATORS_LOCK:  # layers draw from the process's generator alone
        before = generator.get_state()
        generator.manual_seed(seed)
        try:
            yield
        finally:
            generator.set_state(before)


def runs_python(backward: Callable[[], None]) -> bool:
    """Call ``backward()``, and return whether Python ran within PyTorch's backward pass: it may draw random numbers.

    It does so in checkpoints, which repeat the forward pass, in hooks, and in a ``torch.autograd.Function``. PyTorch's own
    layers draw in the forward pass alone. True, too, if nothing is called by the name of the pass, which may have changed.
    """
    before, passes, found = sys.getprofile(), [False], list[str]()  # whether each pass so far goes on

    def note(frame: FrameType, event: str, function: object) -> None:
        if event.startswith("c_") and getattr(function, "__name__", "") == "run_backward":
            passes.append(event == "c_call")
        elif event == "call" and passes[-1]:
            found.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        backward()
    finally:
        sys.setprofile(before)
    return bool(found) or len(passes) == 1


def seed_of(seed: int, agent: int, draw: int) -> int:
    """Return the number under which an agent's layers draw."""
    return int(np.random.SeedSequence([seed, agent, draw]).generate_state(1, np.uint64)[0] >> np.uint64(1))
