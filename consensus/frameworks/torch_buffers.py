"""Batch normalisation in modules of PyTorch: its layers, and the statistics that they take of a batch."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from consensus._arrays.rows import pooled
from consensus.frameworks.torch_checks import batch_norms

if TYPE_CHECKING:
    from torch import Tensor, nn


class BatchLayers:
    """The layers of a module that normalise by the statistics of a batch in training.

    Their running buffers are a vector of ``size`` numbers: the means of all layers, then their variances. ``spans`` has each
    buffer's names, its place in the vector and its shape. It is empty without such layers.
    """

    def __init__(self, torch: ModuleType, module: nn.Module) -> None:
        parts = list(module.named_modules(remove_duplicate=False))  # a layer may have several names
        kind = batch_norms(torch)
        layers = {id(part): part for _, part in parts if isinstance(part, kind) and part.training and part.track_running_stats}
        self.names = [[name for name, part in parts if part is layer] for layer in layers.values()]
        self.channels: list[int] = [layer.num_features for layer in layers.values()]
        self.size: int = 2 * sum(self.channels)
        self.spans: list[tuple[list[str], int, int, tuple[int, ...]]] = []
        for buffer, end in (("running_mean", 0), ("running_var", self.size // 2)):
            for names, channels in zip(self.names, self.channels, strict=True):
                own = [f"{name}.{buffer}".lstrip(".") for name in names]
                self.spans.append((own, end, end + channels, (channels,)))
                end += channels

    def strip(self, module: nn.Module) -> None:
        """Take the running buffers from the layers of a copy of the module, so that they normalise by the batch alone."""
        for layer in self._of(module):
            layer.running_mean = layer.running_var = layer.num_batches_tracked = None
            layer.track_running_stats = False

    @contextmanager
    def watched(self, torch: ModuleType, module: nn.Module) -> Iterator[list[list[tuple[int, Tensor, Tensor]]]]:
        """Note, for each layer and each of its calls: how many numbers a channel has, their mean and their variance."""
        layers = self._of(module)
        seen: list[list[tuple[int, Tensor, Tensor]]] = [[] for _ in layers]

        def note(calls: list[tuple[int, Tensor, Tensor]], _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            axes = [axis for axis in range(inputs[0].ndim) if axis != 1]
            variance, mean = torch.var_mean(inputs[0], axes, correction=0)
            calls.append((inputs[0].numel() // inputs[0].shape[1], mean, variance))

        hooks = [
            layer.register_forward_pre_hook(functools.partial(note, calls)) for layer, calls in zip(layers, seen, strict=True)
        ]
        try:
            yield seen
        finally:
            for hook in hooks:
                hook.remove()

    def vector(self, module: nn.Module, seen: list[list[tuple[int, Tensor, Tensor]]]) -> np.ndarray:
        """Return the statistics that were noted as a vector; of a layer that was not called, the buffers of ``module``."""
        means, variances = [], []
        for layer, calls in zip(self._of(module), seen, strict=True):
            found = calls or [(1, layer.running_mean, layer.running_var)]
            counts = np.array([count for count, *_ in found], float)
            pairs = np.array([[mean.cpu().numpy(), variance.cpu().numpy()] for _, mean, variance in found], float)
            mean, variance = pooled(counts, pairs[:, 0], pairs[:, 1])
            means.append(mean)
            variances.append(variance)
        return np.concatenate([*means, *variances])

    def _of(self, module: nn.Module) -> list[nn.Module]:
        return [module.get_submodule(names[0]) for names in self.names]
