"""Modules of PyTorch whose layers get the outputs' errors by slices of one fixed random matrix; imported with PyTorch alone."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from consensus import _checks
from consensus.deep.feedback_layers import feedback_matrix, feedback_scale
from consensus.frameworks._torch import one_thread
from consensus.frameworks.torch import Torch


def layers_of(module: nn.Module) -> list[list[str]]:
    """Return the names of the children that each layer consists of.

    A layer begins at a child that has a trainable matrix or kernel; children before the first one belong to it. Raise
    ``TypeError`` if the module is no ``Sequential``.
    """
    if type(module) is not nn.Sequential:
        raise TypeError(
            "model must have a torch.nn.Sequential of layers, whose outputs are detached from each other; got "
            f"{_checks.shown(module)}: put its blocks into nn.Sequential(...)"
        )
    layers: list[list[str]] = [[]]
    begun = False
    for name, child in module.named_children():
        begins = any(part.requires_grad and part.ndim > 1 for part in child.parameters())
        if begins and begun:
            layers.append([])
        begun |= begins
        layers[-1].append(name)
    return layers


def with_feedback(model: Torch, seed: int) -> Torch:
    """Return a model for samples of a known shape with its module's layers detached, and their gradients by feedback."""
    if len(model.output_shape) > 1:
        raise ValueError(f"model must have one row of outputs a sample; got {model.output_shape} of {model}")
    layers, module = layers_of(model._module), copy.deepcopy(model._module).cpu().float().eval()
    h, widths = torch.zeros((1, *model.features), dtype=torch.int64 if model.whole else torch.float32), []
    with torch.no_grad(), one_thread(torch):
        for names in layers[:-1]:
            for name in names:
                h = module.get_submodule(name)(h)
            widths.append(h.numel())
    detached = Detached(model._module, layers, feedback_matrix(seed, model.outputs, widths))
    found = model._like(_module=detached)
    found._prepare()
    return found


class Detached(nn.Sequential):  # type: ignore[misc]  # of a package without types
    """A ``Sequential`` whose layers do not pass errors on: all hidden ones get them from the outputs.

    The children, and so the names of parameters, are those of the module that it is made of.
    """

    def __init__(self, module: nn.Sequential, layers: list[list[str]], matrix: np.ndarray) -> None:
        super().__init__()
        for name, child in module.named_children():
            self.add_module(name, child)
        self.layers, self.training = layers, module.training
        self.register_buffer("_feedback", torch.from_numpy(matrix), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of samples x (samples, ...)."""
        hidden = []
        for number, names in enumerate(self.layers):
            for name in names:
                x = self.get_submodule(name)(x)
            if number < len(self.layers) - 1:
                hidden.append(x)
                x = x.detach()
        outputs: Tensor = _Broadcast.apply(x, self._feedback, *hidden)
        return outputs


class _Broadcast(torch.autograd.Function):  # type: ignore[misc]
    """The outputs; on the way back the hidden layers get slices of the outputs' errors times the matrix."""

    generate_vmap_rule = True

    @staticmethod
    def forward(outputs: Tensor, matrix: Tensor, *hidden: Tensor) -> Tensor:
        return outputs.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ANN401  # PyTorch's own
        _, matrix, *hidden = inputs
        ctx.save_for_backward(matrix)
        ctx.shapes = [part.shape for part in hidden]

    @staticmethod
    def backward(ctx: Any, errors: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        (matrix,) = ctx.saved_tensors
        shared = errors.reshape(len(errors), -1) @ matrix

        def own(shape: torch.Size) -> Tensor:
            width = shape[1:].numel()
            return feedback_scale(width) * shared[:, :width].reshape(shape)

        return errors, None, *map(own, ctx.shapes)
