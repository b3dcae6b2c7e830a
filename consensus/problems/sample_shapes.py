"""A model and shards that fit each other."""

import logging
import math
from dataclasses import replace

import numpy as np

from consensus.data import Shards
from consensus.data.frames import Classes, listed
from consensus.models.base import Model


def check_classes(loss: object, classes: Classes | None) -> None:
    """Raise ``ValueError`` if the loss would fit the codes of classes, as numbers."""
    if classes is None or not getattr(loss, "regression", False) or classes in ((False, True), tuple(range(len(classes)))):
        return
    name = "LogisticLoss()" if len(classes) == 2 else f"CrossEntropy() and a model with {len(classes)} outputs"
    raise ValueError(
        f"{type(loss).__name__} fits numbers, and the targets of these shards are codes of the classes {listed(classes)}: take "
        f"{name}"
    )


def fitted(model: Model, shards: Shards) -> tuple[Model, Shards]:
    """Return ``model`` for samples of the shape and dtype of ``shards``, and the shards in the precision of the run.

    Whole numbers are kept for a model that takes them, which then runs in the precision of its own parameters.
    """
    features, for_samples = shards.features, getattr(model, "for_samples", None)
    shape, real = features.shape[2:], features.dtype.kind == "f"
    if for_samples and not real and getattr(model, "takes_integers", False):
        model = for_samples(shape, features.dtype)
        if getattr(model, "whole", False):
            dtype = np.result_type(model.init(np.random.default_rng(0)), np.float32)
            return model, replace(shards, targets=shards.targets.astype(dtype), weights=shards.weights.astype(dtype))
    elif for_samples:
        model = for_samples(shape)
    if real:
        return model, shards
    logging.getLogger("consensus").info("features in %s become float64, as %s takes no whole numbers", features.dtype, model)
    return model, replace(shards, features=features.astype(np.float64))


def check_labels(model: Model, targets: np.ndarray) -> None:
    """Raise ``ValueError`` if a model's outputs have a shape (tokens, ..., classes), and targets another number of columns."""
    shape, columns = getattr(model, "output_shape", ()), targets.shape[-1]
    if len(shape) > 1 and columns not in (math.prod(shape[:-1]), math.prod(shape)):
        each = f"{math.prod(shape[:-1])} labels, or {math.prod(shape)} numbers"
        raise ValueError(f"targets must have {each} for a sample's outputs {shape} of {model}; got {columns} columns")


def misfit(shape: tuple[int, ...], model: Model, wanted: tuple[int, ...]) -> str:
    """Return the message that ``model`` takes samples of another shape, and how to reshape them if that is possible."""
    found, takes = (sizes if len(sizes) > 1 else sizes[0] for sizes in (shape, wanted))
    same = math.prod(shape) == math.prod(wanted)
    remedy = f": X.reshape(len(X), {', '.join(map(str, wanted))})" if same else ""
    return f"the shards have {found} features a sample, but {model} takes {takes}{remedy}"
