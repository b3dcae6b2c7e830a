"""Which modules of PyTorch, and which devices, can be taken."""

import functools
import hashlib
import math

import numpy as np

from consensus import _checks


def checked_device(torch, device):
    """``device``, if it is one of this machine."""
    if not isinstance(device, str | torch.device):
        raise TypeError(f"device must be a name such as 'cpu' or 'cuda:1'; got {_checks.shown(device)}")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device must be one that PyTorch has here, such as 'cpu'; got {device!r} ({error})") from error
    return str(device)


def made(torch, make, seed):
    """A module made by the user's function under ``seed``; PyTorch's generator goes on as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = make()
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, or a function that makes one; it made {_checks.shown(module)}")
    return module


def refuse(torch, module):
    """Raise ``ValueError`` where the function of a batch depends on chance, or on more than a sample's own features."""
    nn = torch.nn
    for name, part in module.named_modules():
        where = f"{name or 'module'}, a {type(part).__name__},"
        if isinstance(part, nn.modules.lazy.LazyModuleMixin) and part.has_uninitialized_params():
            raise ValueError(f"{where} has no parameters yet: call the module on some samples first")
        dropout = part.p if isinstance(part, nn.modules.dropout._DropoutNd) else getattr(part, "dropout", 0)
        if part.training and isinstance(dropout, float) and dropout > 0:
            raise ValueError(
                f"{where} drops out at random: call module.eval() first, or leave it out; weight decay is consensus.L2"
            )
        if isinstance(part, nn.modules.batchnorm._NormBase) and part.track_running_stats and part.training:
            raise ValueError(
                f"{where} changes with every batch: use GroupNorm or LayerNorm, or module.eval() to keep the averages of a "
                "trained one"
            )
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
            raise ValueError(
                f"{where} takes the statistics of a batch, so that samples depend on each other: use GroupNorm in its place"
            )


def returned(torch, outputs):
    """What a module returned, as an array where NumPy has its dtype; TypeError if PyTorch has lost sight of it."""
    if isinstance(outputs, np.ndarray):
        raise TypeError("it returns a NumPy array, through which there is no gradient: return the torch.Tensor itself")
    try:
        return outputs.cpu().numpy() if isinstance(outputs, torch.Tensor) else outputs
    except TypeError:  # such as bfloat16
        return outputs


def path(torch, module, call, x):
    """How many numbers a sample takes on its way through ``call()``, a call of ``module`` with x (samples, ...).

    Also an objection to the part of the module that writes over x, or "".
    """
    given, objections, widths = x.copy(), [], [math.prod(x.shape[1:])]

    def note(name, part, inputs, output):
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


def generators(torch):
    """PyTorch's global generator by name, with functions that read and set its state."""
    read, put = torch.get_rng_state, torch.set_rng_state
    return {"PyTorch's generator": (lambda: read().numpy(), lambda state: put(torch.from_numpy(state)))}


def constants(module, trained):
    """Digests of the module's buffers and parameters, but for the ``trained`` ones, by name."""
    parts = dict(module.named_parameters()) | dict(module.named_buffers())
    return {name: digest([value]) for name, value in parts.items() if name not in trained}


def digest(values):
    """A digest of the bits of tensors."""
    bits = (value.detach().cpu().numpy().tobytes() for value in values)
    return hashlib.sha256(b"".join(bits)).hexdigest()[:12]
