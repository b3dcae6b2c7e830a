"""PyTorch's generators under a seed of our own, for modules that draw random numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from consensus.frameworks._torch import GENERATORS_LOCK

if TYPE_CHECKING:
    import torch


def generators(torch: ModuleType, device: str) -> dict[str, torch.Generator]:
    """Return the generators that layers on a device draw from, by name: the CPU's, and the device's own if it can be had."""
    found, place = {"PyTorch's generator": torch.default_generator}, torch.device(device)
    there: Any = getattr(torch, place.type, None)  # torch.cuda, torch.xpu
    if own := getattr(there, "default_generators", None):
        found[f"PyTorch's generator of {device}"] = own[there.current_device() if place.index is None else place.index]
    return found


@contextmanager
def seeded(torch: ModuleType, seed: int, device: str = "cpu") -> Iterator[None]:
    """Let PyTorch's generators of a device begin at ``seed``; afterwards they go on as if nothing had been drawn."""
    with GENERATORS_LOCK:  # layers draw from the process's generators alone
        before = [(generator, generator.get_state()) for generator in generators(torch, device).values()]
        for generator, _ in before:
            generator.manual_seed(seed)
        try:
            yield
        finally:
            for generator, state in before:
                generator.set_state(state)


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
