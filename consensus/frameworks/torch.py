"""Modules of PyTorch as models."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import DTypeLike

from consensus import _checks
from consensus._arrays.parallel import CHUNK_BYTES
from consensus.frameworks._torch import one_thread
from consensus.frameworks.base import AGENTS_AWAY
from consensus.frameworks.torch_buffers import BatchLayers
from consensus.frameworks.torch_calls import loaded
from consensus.frameworks.torch_checks import checked_device, copied, digest, half, kinds, made, refuse, rough
from consensus.frameworks.torch_derivatives import Derivatives
from consensus.frameworks.torch_draws import seeded
from consensus.frameworks.torch_gradients import ModuleGradients
from consensus.models.layout import NamedArray
from consensus.models.linearization import DEVICE_BYTES, fitting

if TYPE_CHECKING:
    from torch import Tensor, nn

_TOGETHER = 5  # agents in a call with convolutions: half as many take longer each, twice as many hardly less
_LAYERS = 8  # with Linear layers alone: as many take half the time of three


class Torch(ModuleGradients):
    """A PyTorch module as a model: ``f(w, x) = module(x)`` with the trainable parameters w.

    Parameters
    ----------
    module : torch.nn.Module, or callable
        Takes a batch of samples (samples, ...) to (samples, outputs), or to outputs of any shape, such as (samples,) or
        (samples, tokens, classes); its parameters are the start of a run. A function or class that makes such a module without
        arguments gives every seed its own start.
    device : str
        Device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ....
    seed : int
        Seed of the random numbers that the module draws in training, as for dropout; at least 0.
    buffers : {"average", "keep"}
        By which means and variances layers of batch normalisation evaluate a point: those of the samples of all agents, or of
        each agent's own.

    Raises
    ------
    ImportError
        Without PyTorch: ``pip install 'consensus-opt[torch]'``.
    ValueError
        If the module has batch statistics without running buffers, no trainable parameters or complex ones, embeddings with
        ``max_norm``, or active dropout on a device whose generator cannot be had, such as MPS; if it wraps another one, as
        ``torch.compile``, ``torch.jit`` and ``DataParallel`` do; if the device does not exist; if ``seed`` or ``buffers`` is
        out of range.
        :meth:`for_samples` rejects modules whose calls change anything but their result, count on earlier calls, mix samples in
        evaluation mode, draw random numbers there or from another generator than PyTorch's, or fail in the run's precision.
    TypeError
        If ``module`` is no module and makes none.

    Notes
    -----
    The parameter vector holds the trainable parameters (``requires_grad``) in the order of ``module.named_parameters()``, each
    row by row; :meth:`unflatten` takes them apart again. Other parameters and buffers are constants. The module is copied, so
    that training does not change it. :meth:`predict`, objectives and test errors are those of ``module.eval()``; gradients of
    batches are those of the mode that its parts are in. Parts in bfloat16 or float16, and quantised ones, compute in their own
    precision, while the parameter vector is in float32 or float64. :meth:`predict` returns a sample's outputs as one row, of
    ``output_shape``, which is known once the shape of a sample is: :class:`consensus.Problem` and
    :func:`consensus.testing.check_model` call :meth:`for_samples`. Results on all engines are equal but for rounding, because
    products are rounded by the number of agents in a call and by their place in memory; a call uses one thread, and calls for
    several agents share the cores.

    Examples
    --------
    >>> from torch import nn
    >>> import numpy as np
    >>> from consensus.models import Torch
    >>> model = Torch(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)))
    >>> model.predict(np.zeros((10, 23)), np.ones((10, 5, 4))).shape
    (10, 5, 2)
    >>> list(model.unflatten(np.zeros(23)))
    ['0.weight', '0.bias', '2.weight', '2.bias']
    """

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module],
        device: str = "cpu",
        seed: int = 0,
        buffers: Literal["average", "keep"] = "average",
    ) -> None:
        torch = loaded()
        self.seed = _checks.count("seed of Torch", seed, least=0)
        self._make: Callable[[], nn.Module] | None = None if isinstance(module, torch.nn.Module) else module
        if self._make is not None and not callable(self._make):
            raise TypeError(f"module must be a torch.nn.Module, or a function that makes one; got {_checks.shown(module)}")
        self._module = copied(torch, module if self._make is None else made(torch, self._make, 0))
        self.device = checked_device(torch, device)
        refuse(torch, self._module, self.device)
        self._layers, self._evaluated_by = BatchLayers(torch, self._module), {}
        self.buffers = _checks.choice("buffers", buffers, ("average", "keep")) if self._layers.size else None
        trainable = {name: part for name, part in self._module.named_parameters() if part.requires_grad}
        if not trainable:
            raise ValueError(f"module must have parameters that require a gradient; got {self}: module.requires_grad_() first")
        ends = np.cumsum([part.numel() for part in trainable.values()]).tolist()
        self.parameters = ends[-1]
        self._halves = [part.dtype if half(part.dtype) else None for part in trainable.values()]
        self._half = None if None in self._halves else self._halves[0]
        double = any(part.dtype == torch.float64 for part in trainable.values())
        self.precision = np.dtype(np.float64 if double else np.float32)
        self._rough = rough(self._module)
        names = list(self._module.named_parameters(remove_duplicate=False))  # some may be tied, and have several
        self._spans = [
            ([name for name, other in names if other is part], end - part.numel(), end, tuple(part.shape))
            for part, end in zip(trainable.values(), ends, strict=True)
        ]
        owners = {type(self._module.get_submodule(name.rpartition(".")[0])) for name in trainable}
        self._linear = owners == {torch.nn.Linear}
        convolves = any(issubclass(owner, kinds(torch, "Conv", "ConvTranspose")) for owner in owners)
        self._linear &= not self._rough and not any(part._forward_pre_hooks for part in self._module.modules())
        self.agents_per_call = _LAYERS if self._linear else _TOGETHER if convolves else 1
        self.little = (self.agents_per_call if convolves else 1) * CHUNK_BYTES
        if self.away:
            self.agents_per_call, self.little = AGENTS_AWAY if self._linear else self.agents_per_call, DEVICE_BYTES
        self._prepare()

    def __repr__(self) -> str:
        fixed_parameters = (part for part in self._module.parameters() if not part.requires_grad)
        constants = [*self._module.buffers(), *fixed_parameters, *map(loaded().from_numpy, self._evaluated_by.values())]
        text = " ".join(str(self._module).split())
        fixed = f", constants={digest(constants)}" if constants else ""
        drawn = f", seed={self.seed}" if self.stochastic else ""
        buffers = f", buffers={self.buffers!r}" if self.buffers else ""
        return f"Torch({text}, device={self.device!r}{fixed}{drawn}{buffers})"

    @property
    def layout(self) -> tuple[NamedArray, ...]:
        """Names, places and shapes of the parameters; those of a layer's weights begin with its outputs."""
        return tuple(NamedArray(names[0], start, shape, 0) for names, start, _, shape in self._spans)

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Return the start: the module's own values, or those of a new module under a seed drawn from ``rng``.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        ndarray (P,)
            Parameters.
        """
        _checks.offers("rng", rng, ("integers",), "a NumPy generator, such as numpy.random.default_rng(0)")
        module = self._module if self._make is None else made(loaded(), self._make, int(rng.integers(2**63)))
        values = dict(module.named_parameters())
        starts = (values[name].detach().cpu() for (name, *_), *_ in self._spans)
        return np.concatenate([(start.float() if half(start.dtype) else start).numpy().ravel() for start in starts])

    def unflatten(self, w: np.ndarray, buffers: np.ndarray | None = None) -> dict[str, Tensor]:
        """Return the state dict of the module, for ``module.load_state_dict``.

        Parameters
        ----------
        w : ndarray (P,)
            Parameters.
        buffers : ndarray (B,), optional
            The running means and variances of batch normalisation, if there is any: ``problem.buffers(w)``.

        Returns
        -------
        dict
            Tensors by name: parameters from w, and buffers.
        """
        w = _checks.floats("w", w)
        if w.shape != (self.parameters,):
            raise ValueError(f"w must have shape ({self.parameters},) for {self}, such as result.mean; got {w.shape}")
        if buffers is None and self.buffers:
            raise ValueError(f"buffers must be given for {self}, which normalises batches: those of problem.buffers(w)")
        state: dict[str, Tensor] = (
            self._module.state_dict()
        )  # with the versions of layers, which some of them need when it is loaded
        state.update({name: copy.deepcopy(value) for name, value in state.items()})
        for names, start, end, shape in self._spans:
            state.update({name: loaded().from_numpy(w[start:end].reshape(shape).copy()) for name in names})
        arrays = self._evaluated_by if buffers is None else self._named(buffers)
        state.update({name: loaded().from_numpy(array.copy()) for name, array in arrays.items()})
        return state

    state_dict = unflatten  # PyTorch's name

    def _most(self, samples: int, dtype: np.dtype) -> int:
        """Return how many agents of so many samples may share a call.

        If all parameters are of ``Linear`` layers, any number whose numbers fit the cache. Convolutions have few parameters,
        which many samples share: they do not count, and up to five agents share a call. Other modules have one agent in a call.
        """
        if self.agents_per_call == 1 or self._mode in ("training", "normalised"):  # each agent draws and normalises by itself
            return 1
        if self._linear:
            most = super()._most(samples, dtype)
        else:
            small = 2 * samples * sum(self.widths) * dtype.itemsize <= self.agents_per_call * CHUNK_BYTES // 2
            most = self.agents_per_call if small else 1
        return most if most > 1 and self._shares(dtype) else 1

    def _shares(self, dtype: np.dtype) -> bool:
        """Return whether the module computes for two agents in a call what it computes for each, but for rounding."""
        key = self.features, self.whole, dtype
        if key not in self._shared:
            rng = np.random.default_rng(0)
            shapes = (self.parameters,), (3, *self.features), (3, self.outputs), (self.parameters,)
            arrays = [0.3 * rng.standard_normal((2, *shape)).astype(dtype) for shape in shapes]
            tolerance = 5e-2 if self._rough else 1e-3
            try:
                both, *alone = (self._products(*(array[rows] for array in arrays)) for rows in (slice(0, 2), [0], [1]))
                self._shared[key] = all(
                    np.allclose(found, np.concatenate(parts), rtol=tolerance, atol=tolerance * np.abs(found).max(initial=0))
                    for found, *parts in zip(both, *alone, strict=True)
                )
            except Exception:  # whatever the module does that only works for one agent
                self._shared[key] = False
        return self._shared[key]

    def for_samples(self, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> Self:
        model = super().for_samples(shape, dtype)
        _ = model._kept  # a trial, too
        return model

    def samples_at_once(self, dtype: DTypeLike) -> int:
        """Return how many samples of an agent one pass takes at most, by what PyTorch keeps of some samples on the way.

        Parameters
        ----------
        dtype : dtype
            Dtype of the run.

        Returns
        -------
        int
            The number; no limit for layers that normalise by the samples of a call.
        """
        if self._mode in ("training", "normalised") or "features" not in self.__dict__:
            return sys.maxsize
        return fitting(self._kept, dtype, self.device)

    @property
    def _kept(self) -> int:
        """The count of numbers that a sample takes in both passes: those kept for the backward pass, and slopes there."""
        key = self.features, self.whole
        if key not in self._numbers_kept:
            torch, precision = loaded(), max(self._tried_in)
            dtype = np.dtype(np.int64) if self.whole else precision
            w = (0.3 * np.random.default_rng(0).standard_normal(self.parameters)).astype(precision)  # as in the trial
            sizes = []
            for count in (1, 3):
                found: dict[int, int] = {}  # by where they are: several steps may keep the same

                def note(tensor: Tensor, found: dict[int, int] = found) -> Tensor:
                    found[tensor.data_ptr()] = tensor.numel()
                    return tensor

                with self._context(precision), torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
                    Derivatives(self, w[None], np.ones((1, count, *self.features), dtype))
                sizes.append(found.values())
            fixed, more = (sum(of) for of in sizes)
            largest = [max(of, default=0) for of in sizes]
            kept = (more - fixed) // 2 + 4 * max(0, largest[1] - largest[0]) // 2
            self._numbers_kept[key] = max(kept, 2 * sum(self.widths[1:]))
        return self._numbers_kept[key]

    def _products(self, w: np.ndarray, x: np.ndarray, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return all that may be asked for of agents in one call: outputs, and products with the Jacobian."""
        x = x > 0 if self.whole else x
        x = x.astype(np.int32 if self.whole else w.dtype, copy=False)
        derivatives = Derivatives(self, w, x)
        outputs = self._array(derivatives.outputs.detach(), x)
        return self._predict(w, x), outputs, derivatives.vjp(u), derivatives.jvp(v)

    def _prepare(self) -> None:
        super()._prepare()
        self._shared: dict[tuple[tuple[int, ...], bool, np.dtype], bool] = {}  # whether agents may share a call, by samples
        self._here, self._plain, self._seconds = threading.local(), {}, {}
        self._numbers_kept: dict[tuple[tuple[int, ...], bool], int] = {}  # of a sample, by its shape

    @contextmanager
    def _context(self, dtype: DTypeLike) -> Iterator[None]:
        torch = loaded()
        with one_thread(torch), nullcontext() if self._draw is None else seeded(torch, self._draw, self.device):
            yield

    def _predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        with loaded().set_grad_enabled(self._differentiates):
            return self._array(self._outputs(self._leaves(w), self._stack(x)).detach(), x)

    def _derivatives(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, Derivatives]:
        derivatives = Derivatives(self, w, x)
        return self._array(derivatives.outputs.detach(), x), derivatives

    def _jacobian(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        torch, leaves, samples = loaded(), self._leaves(w[None]), self._tensor(x)
        function = self._function(leaves[0].dtype)
        if self.buffers:  # samples depend on each other
            rows = torch.func.jacrev(lambda leaves: function(leaves, samples))(leaves)
        else:
            rows_of = torch.func.jacrev(lambda leaves, sample: function(leaves, sample[None])[0])
            rows = torch.func.vmap(rows_of, in_dims=(None, 0))(leaves, samples)
        parts = [part.detach().reshape(len(x), self.outputs, -1) for part in rows]
        return np.asarray(torch.cat(parts, dim=2).cpu().numpy())

    def _backward(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> object:
        return Derivatives(self, w[None], x[None]).vjp(u[None])
