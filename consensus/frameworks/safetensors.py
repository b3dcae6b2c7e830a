"""Parameters in files of the format safetensors."""

import math
import os
from typing import Any

import numpy as np

from consensus import _checks, _extras
from consensus._arrays.files import whole
from consensus.models.base import Model


def save_safetensors(path: str | os.PathLike[str], model: Model, w: np.ndarray, buffers: np.ndarray | None = None) -> None:
    """Write the parameters of one agent, or of the mean, to a file in the format safetensors.

    The names and shapes are those of the module's state dict for ``models.Torch``, and those of ``model.layout`` for MLP,
    ResNet, Linear and ``models.JAX``. The file is replaced as a whole.

    Parameters
    ----------
    path : path
        Such as ``"model.safetensors"``; nothing is appended to it.
    model : Model
        Model of the run, ``problem.model``, which has a ``layout``.
    w : ndarray (P,)
        Parameters: ``result.mean``, or ``result.w[i]`` of agent i.
    buffers : ndarray (B,), optional
        The running means and variances of a module's batch normalisation, if there is any: ``problem.buffers(w)``.

    Raises
    ------
    ImportError
        Without safetensors: ``pip install 'consensus-opt[safetensors]'``.
    TypeError
        If the model has no ``layout``.
    ValueError
        If ``w`` or ``buffers`` has another shape than the model's, or two arrays of the layout have one name.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, consensus
    >>> from safetensors.numpy import load_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.safetensors")
    ...     consensus.models.save_safetensors(path, consensus.Linear(2), np.array([1.0, 2.0, 3.0]))
    ...     print({name: array.tolist() for name, array in sorted(load_file(path).items())})
    {'0.bias': [3.0], '0.weight': [[1.0], [2.0]]}
    """
    file = _checks.path("path", path)
    if not file.name:
        raise ValueError(f"path must be that of a file; got {path!r}")
    layout, state_dict = getattr(model, "layout", None), getattr(model, "state_dict", None)
    if layout is None:
        raise TypeError(f"model must have a layout, names and shapes of its parameters; {_checks.shown(model)} has none")
    w = _checks.floats("w", w)
    w = w if w.itemsize <= 8 else w.astype(float)  # the format has no longer numbers
    if w.shape != (model.parameters,):
        raise ValueError(f"w must have shape ({model.parameters},), such as result.mean; got {w.shape}")
    written = _extras.module(f"safetensors.{'torch' if state_dict else 'numpy'}", "save_safetensors", "safetensors")
    arrays: dict[str, Any]
    if state_dict:
        arrays = {name: tensor.contiguous() for name, tensor in state_dict(w, buffers).items()}
    elif buffers is not None:
        raise ValueError(f"buffers must be None for {model}, which has no batch normalisation")
    else:
        arrays = {name: np.ascontiguousarray(w[at : at + math.prod(shape)]).reshape(shape) for name, at, shape, _ in layout}
        if len(arrays) < len(layout):
            raise ValueError(f"the names of the model's layout must differ; got {[part.name for part in layout]}")
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole(file) as opened:
        opened.write(written.save(arrays))
