"""Which modules of PyTorch, and which devices, can be taken."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Collection, Iterable
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from consensus import _checks
from consensus.models.framework_trial import Generators

if TYPE_CHECKING:
    from torch import Tensor, nn


def checked_device(torch: ModuleType, device: object) -> str:
    """Return ``device`` if it is one of this machine; otherwise raise ``TypeError`` or ``ValueError``."""
    if not isinstance(device, str | torch.device):
        raise TypeError(f"device must be a name such as 'cpu' or 'cuda:1'; got {_checks.shown(device)}")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device must be one that PyTorch has here, such as 'cpu'; got {device!r} ({error})") from error
    return str(device)


def made(torch: ModuleType, make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Return a module made by the user's function under ``seed``; PyTorch's generator goes on as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = make()
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, or a function that makes one; it made {_checks.shown(module)}")
    return module


def kinds(torch: ModuleType, *names: str) -> tuple[type[nn.Module], ...]:
    """Return the layers of these names for one, two and three dimensions, such as ``BatchNorm1d`` to ``BatchNorm3d``."""
    return tuple(getattr(torch.nn, f"{name}{dimensions}d") for name in names for dimensions in (1, 2, 3))


def batch_norms(torch: ModuleType) -> tuple[type[nn.Module], ...]:
    """Return the layers that normalise by the statistics of a batch."""
    return (*kinds(torch, "BatchNorm"), torch.nn.SyncBatchNorm)


def refuse(torch: ModuleType, module: nn.Module, device: str) -> None:
    """Raise ``ValueError`` where a device draws numbers that are not repeated, or outputs depend on other samples."""
    nn = torch.nn
    dropouts = (nn.Dropout, *kinds(torch, "Dropout"), nn.AlphaDropout, nn.FeatureAlphaDropout)
    for name, part in module.named_modules():
        where = f"{name or 'module'}, a {type(part).__name__},"
        if isinstance(part, nn.modules.lazy.LazyModuleMixin) and part.has_uninitialized_params():
            raise ValueError(f"{where} has no parameters yet: call the module on some samples first")
        dropout = part.p if isinstance(part, dropouts) else getattr(part, "dropout", 0)
        if device != "cpu" and part.training and isinstance(dropout, float) and dropout > 0:
            raise ValueError(
                f"{where} drops out at random, which is repeated with device='cpu' alone: take that, or call "
                "module.eval() first"
            )
        if isinstance(part, kinds(torch, "InstanceNorm")) and part.track_running_stats and part.training:
            raise ValueError(
                f"{where} changes with every batch: leave out track_running_stats, or call module.eval() to keep the averages "
                "of a trained one"
            )
        if isinstance(part, batch_norms(torch)) and part.running_mean is None:
            raise ValueError(
                f"{where} has no running buffers, so that predictions depend on other samples: take track_running_stats=True"
            )


def returned(torch: ModuleType, outputs: object) -> object:
    """Return what a module returned, as an array if NumPy has its dtype; raise ``TypeError`` if it has no gradient."""
    if isinstance(outputs, np.ndarray):
        raise TypeError("it returns a NumPy array, through which there is no gradient: return the torch.Tensor itself")
    try:
        return outputs.cpu().numpy() if isinstance(outputs, torch.Tensor) else outputs
    except TypeError:  # such as bfloat16
        return outputs


def path(torch: ModuleType, module: nn.Module, call: Callable[[], object], x: np.ndarray) -> tuple[tuple[int, ...], str]:
    """Return how many numbers a sample takes on its way through ``call()``, a call of ``module`` with x (samples, ...).

    The second result is an objection to the part of the module that writes over x, or "".
    """
    given, objections, widths = x.copy(), list[str](), [math.prod(x.shape[1:])]

    def note(name: str, part: nn.Module, inputs: object, output: object) -> None:
        widths.append(output.numel() // len(x) if isinstance(output, torch.Tensor) else 0)
        if not objections and not np.array_equal(x, given):
            objections.append(f"{name or 'module'}, a {type(part).__name__}, writes over the features: take inplace=False")

    leaves = [(name, part) for name, part in module.named_modules() if not any(part.children())]
    hooks = [part.register_forward_hook(functools.partial(note, name)) for name, part in leaves]
    try:
        call()
    finally:
        for hook in hooks:
            hook.remove()
    x[...] = given
    return tuple(widths), "".join(objections)


def generators(torch: ModuleType) -> Generators:
    """Return the functions that read and set the state of PyTorch's global generator."""
    read, put = torch.get_rng_state, torch.set_rng_state
    return {"PyTorch's generator": (lambda: read().numpy(), lambda state: put(torch.from_numpy(state)))}


def constants(module: nn.Module, trained: Collection[str]) -> dict[str, str]:
    """Return digests of the module's buffers and parameters, but for the ``trained`` ones, by name."""
    parts = dict(module.named_parameters()) | dict(module.named_buffers())
    return {name: digest([value]) for name, value in parts.items() if name not in trained}


def digest(values: Iterable[Tensor]) -> str:
    """Return a digest of the bits of tensors."""
    bits = (value.detach().cpu().numpy().tobytes() for value in values)
    return hashlib.sha256(b"".join(bits)).hexdigest()[:12]
