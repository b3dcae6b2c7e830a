"""Checks of PyTorch modules and devices."""

from __future__ import annotations

import copy
import functools
import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from consensus import _checks
from consensus.frameworks.torch_draws import generators, seeded

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch import dtype as DType


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
    with seeded(torch, seed):
        module = make()
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, or a function that makes one; it made {_checks.shown(module)}")
    return module


def copied(torch: ModuleType, module: nn.Module) -> nn.Module:
    """Return a copy of a module; raise ``ValueError`` if it is none of Python's own, or cannot be copied."""
    # What hooks of earlier versions compute from parameters in every call, as weight_norm does: PyTorch copies no such tensors.
    computed: dict[int, object] = {}
    parallel = torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel
    for name, part in module.named_modules():
        own, inner = (f"module.get_submodule({name!r})" if name else "module"), ""
        if isinstance(part, parallel):
            inner = f"{own}.module"
        elif "_orig_mod" in part._modules:  # of torch.compile, whose own class takes long to import
            inner = f"{own}._orig_mod"
        elif isinstance(part, torch.jit.ScriptModule):
            inner = "the module that torch.jit was given"
        if inner:
            remedy = f"module.set_submodule({name!r}, {inner})" if name else f"give {inner}"
            raise ValueError(
                f"{name or 'module'}, a {type(part).__name__}, wraps a module that has to be seen itself: {remedy}"
            )
        found = (value for value in vars(part).values() if isinstance(value, torch.Tensor) and value.grad_fn is not None)
        computed |= {id(value): value.detach() for value in found}
    try:
        return copy.deepcopy(module, computed)
    except Exception as error:
        raise ValueError(
            f"module must be one that can be copied, without locks, files and generators among its attributes; "
            f"copy.deepcopy(module) raises {type(error).__name__}: {error}"
        ) from error


def half(dtype: DType) -> bool:
    """Return whether a dtype has fewer digits than those of runs, float32 and float64."""
    return bool(dtype.is_floating_point and dtype.itemsize < 4)


def rough(module: nn.Module) -> bool:
    """Return whether parts of a module compute with few digits, or with quantised numbers."""
    quantised = any(".quantized" in type(part).__module__ for part in module.modules())
    return quantised or any(half(part.dtype) or part.is_quantized for part in (*module.parameters(), *module.buffers()))


def cast(torch: ModuleType, module: nn.Module, device: str, dtype: DType) -> nn.Module:
    """Move a module to a device, and its floats to ``dtype``, but for those of less than 32 bits, which stay."""
    others = {torch.complex64: dtype.to_complex(), torch.complex128: dtype.to_complex()}

    def moved(value: Tensor) -> Tensor:
        floats = value.is_floating_point() and not value.is_quantized and not half(value.dtype)
        return value.to(device, dtype if floats else others.get(value.dtype, value.dtype))

    found: nn.Module = module._apply(moved)
    return found


@contextmanager
def modes_read(module: nn.Module) -> Iterator[list[str]]:
    """Note which parts of the user's own ask whether they are in training; PyTorch's layers are known."""
    read: list[str] = []
    kinds_before: list[tuple[nn.Module, type[nn.Module]]] = []

    def asked(part: nn.Module) -> bool:
        read.append(type(part).__name__)
        return bool(vars(part)["training"])

    def put(part: nn.Module, mode: bool) -> None:
        vars(part)["training"] = mode

    try:
        for part in module.modules():
            kind = type(part)
            if not kind.__module__.startswith("torch.nn.modules."):
                part.__class__ = type(kind.__name__, (kind,), {"training": property(asked, put), "__module__": kind.__module__})
                kinds_before.append((part, kind))
        yield read
    finally:
        for part, kind in kinds_before:
            part.__class__ = kind


def kinds(torch: ModuleType, *names: str) -> tuple[type[nn.Module], ...]:
    """Return the layers of these names for one, two and three dimensions, such as ``BatchNorm1d`` to ``BatchNorm3d``."""
    return tuple(getattr(torch.nn, f"{name}{dimensions}d") for name in names for dimensions in (1, 2, 3))


def batch_norms(torch: ModuleType) -> tuple[type[nn.Module], ...]:
    """Return the layers that normalise by the statistics of a batch."""
    return (*kinds(torch, "BatchNorm"), torch.nn.SyncBatchNorm)


def refuse(torch: ModuleType, module: nn.Module, device: str) -> None:
    """Raise ``ValueError`` where a device draws numbers that are not repeated, or outputs depend on other samples.

    So it does of parameters that are no real numbers, or are written over in calls.
    """
    nn = torch.nn
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and parameter.is_complex():
            raise ValueError(
                f"{name} must be real, as all that agents train and send; it is {parameter.dtype}: keep "
                f"torch.view_as_real({name}) as the parameter, and take "
                f"torch.view_as_complex(self.{name.rpartition('.')[2]}) in forward"
            )
    dropouts = (nn.Dropout, *kinds(torch, "Dropout"), nn.AlphaDropout, nn.FeatureAlphaDropout)
    for name, part in module.named_modules():
        where = f"{name or 'module'}, a {type(part).__name__},"
        if isinstance(part, nn.modules.lazy.LazyModuleMixin) and part.has_uninitialized_params():
            raise ValueError(f"{where} has no parameters yet: call the module on some samples first")
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.max_norm is not None:
            own = f"module.get_submodule({name!r})" if name else "module"
            raise ValueError(
                f"{where} writes over its weights in every call, because of max_norm={part.max_norm:g}: set "
                f"{own}.max_norm = None, or shorten its outputs after the call, "
                f"x * ({part.max_norm:g} / x.norm(dim=-1, keepdim=True)).clamp(max=1)"
            )
        dropout = part.p if isinstance(part, dropouts) else getattr(part, "dropout", 0)
        if (
            part.training
            and isinstance(dropout, float)
            and dropout > 0
            and device != "cpu"
            and len(generators(torch, device)) < 2
        ):
            raise ValueError(
                f"{where} drops out at random, and PyTorch has no generator of {device} whose numbers could be repeated: take "
                "device='cpu' or 'cuda', or call module.eval() first"
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
        return outputs.detach().cpu().numpy() if isinstance(outputs, torch.Tensor) else outputs
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


def constants(module: nn.Module, trained: Collection[str]) -> dict[str, str]:
    """Return digests of the module's buffers and parameters, but for the ``trained`` ones, by name."""
    parts = dict(module.named_parameters()) | dict(module.named_buffers())
    return {name: digest([value]) for name, value in parts.items() if name not in trained}


def state(torch: ModuleType, module: nn.Module) -> dict[str, str]:
    """Return the numbers, and digests of the tensors, that are attributes of the module's parts, by name."""
    found = {}
    for name, part in module.named_modules():
        for attribute, value in vars(part).items():
            if isinstance(value, int | float):
                found[f"{name}.{attribute}".lstrip(".")] = repr(value)
            elif isinstance(value, torch.Tensor):
                found[f"{name}.{attribute}".lstrip(".")] = digest([value])
    return found


def digest(values: Iterable[Tensor]) -> str:
    """Return a digest of the bits of tensors."""
    return hashlib.sha256(b"".join(map(_bits, values))).hexdigest()[:12]


def _bits(value: Tensor) -> bytes:
    value = value.detach().cpu()
    value = value.int_repr() if value.is_quantized else value.to_dense() if value.is_sparse else value
    import torch  # which made it

    found: bytes = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return found
