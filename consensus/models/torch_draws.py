"""PyTorch's generator under a seed of our own, for modules that draw random numbers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np

_LOCK = threading.RLock()  # layers draw from the process's generator alone: one thread at a time has it


@contextmanager
def seeded(torch: ModuleType, seed: int) -> Iterator[None]:
    """Let PyTorch's generator begin at ``seed``; afterwards it goes on as if nothing had been drawn."""
    generator = torch.default_generator
    with _LOCK:
        before = generator.get_state()
        generator.manual_seed(seed)
        try:
            yield
        finally:
            generator.set_state(before)


def seed_of(seed: int, agent: int, draw: int) -> int:
    """Return the number under which an agent's layers draw."""
    return int(np.random.SeedSequence([seed, agent, draw]).generate_state(1, np.uint64)[0] >> np.uint64(1))
