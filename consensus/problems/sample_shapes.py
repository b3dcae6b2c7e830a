"""A model and shards that fit each other."""

import logging
import math
from dataclasses import replace

import numpy as np

from consensus._sparse import SparseRows
from consensus.data import Shards
from consensus.data.frames import Classes, listed
from consensus.losses.base import Loss
from consensus.losses.cross_entropy import CrossEntropy
from consensus.losses.torch_loss import TorchLoss
from consensus.losses.trial import check_samples
from consensus.models.base import Model
from consensus.problems.draws import check_sizes, of_batches


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
    if isinstance(features, SparseRows):
        model = on_sparse(model, features)
        for_samples = None
    shape, real = features.shape[2:], features.dtype.kind == "f"
    if for_samples and not real and getattr(model, "takes_integers", False):
        model = for_samples(shape, features.dtype)
        if getattr(model, "whole", False):
            dtype = np.result_type(model.init(np.random.default_rng(0)), np.float32)
            return model, replace(shards, targets=shards.targets.astype(dtype), weights=shards.weights.astype(dtype))
        model = for_samples(shape, np.float64)
    elif for_samples:
        given = (features.dtype if real else np.float64,) if getattr(model, "takes_integers", False) else ()
        model = for_samples(shape, *given)
    if real:
        return model, shards
    logging.getLogger("consensus").info("features in %s become float64, as %s takes no whole numbers", features.dtype, model)
    return model, replace(shards, features=features.astype(np.float64))


def on_sparse(model: Model, rows: SparseRows) -> Model:
    """Return ``model`` for sparse features; raise ``TypeError`` if it takes dense ones alone."""
    if not (of_model := getattr(model, "for_sparse", None)):
        size = rows.size * rows.dtype.itemsize
        takes = f"{size / 1e9:.3g} GB" if size > 1e9 else f"{size / 1e6:.2g} MB"
        raise TypeError(
            f"{model} takes dense features, and those of the shards are sparse, {rows.shape[2]} a sample: make the shards of "
            f"X.toarray(), which takes {takes}, or take consensus.Linear({rows.shape[2]})"
        )
    found: Model = of_model()
    return found


def fitted_loss(
    loss: Loss, model: Model, targets: np.ndarray, shape: tuple[int, ...], weights: np.ndarray | None = None
) -> Loss:
    """Return ``loss`` for a model's outputs and for all targets (samples, columns); raise ``ValueError`` if they do not fit.

    ``shape`` is that of a sample's outputs, ``weights`` are those of the samples, if they may differ. A loss of another package
    is tried on the targets; one of PyTorch comes back with what its trial found.
    """
    loss.check(targets, model.outputs)
    if of_batches(loss):
        given = np.empty(0) if weights is None else weights[weights > 0]
        if len(given) and given.min() != given.max():
            raise ValueError(
                f"{loss} is a loss of a whole batch, in which samples have no weights of their own; these have "
                f"{given.min():g} to {given.max():g}: leave sample_weight out"
            )
        loss = loss_settled(loss, model, targets, shape)
        if weights is not None:
            check_sizes(loss, np.unique((weights > 0).sum(axis=1)).tolist(), targets, model.outputs)
        return loss
    if type(loss).__module__.partition(".")[0] != "consensus":
        check_samples(loss, targets, model.outputs)
    return loss_settled(loss, model, targets, shape)


def loss_settled(loss: Loss, model: Model, targets: np.ndarray, shape: tuple[int, ...]) -> Loss:
    """Return ``loss`` with what it finds out by targets, if it has to."""
    settled = getattr(loss, "settled", None)
    found: Loss = settled(targets, model.outputs, shape) if settled else loss
    return found


def check_labels(shape: tuple[int, ...], loss: Loss, columns: int, model: object) -> None:
    """Raise ``ValueError`` if outputs of a ``shape``, such as (tokens, ..., classes), have another number of targets.

    Losses of classes take the last axis as that of the classes. PyTorch's takes the first one of a sample, which shows in the
    number of labels, unless the first and the last are as long: then the shape does not tell, and flat outputs do.
    """
    if len(shape) < 2 or isinstance(loss, TorchLoss):  # which says by a call what it takes
        return
    last, first, numbers = math.prod(shape[:-1]), math.prod(shape[1:]), math.prod(shape)
    if columns not in (last, first, numbers):
        each = f"{last} labels, or {numbers} numbers"
        raise ValueError(f"targets must have {each} for a sample's outputs {shape} of {model}; got {columns} columns")
    if columns != first or columns == numbers or not isinstance(loss, CrossEntropy):
        return
    layout = f"{model} returns {shape} a sample, with {columns} labels each"
    if columns != last:
        raise ValueError(
            f"{layout}: that is PyTorch's layout, (samples, classes, ...), and {type(loss).__name__} takes classes last: let "
            "the module return outputs.movedim(1, -1), as by a class derived from it with the method "
            "def forward(self, x): return super().forward(x).movedim(1, -1)"
        )
    raise ValueError(
        f"{layout}: classes may be the first axis or the last one, which are as long: let the module return "
        "outputs.movedim(1, -1).flatten(1) if they are the first, as in PyTorch's layout, and outputs.flatten(1) if the last"
    )


def misfit(shape: tuple[int, ...], model: Model, wanted: tuple[int, ...]) -> str:
    """Return the message that ``model`` takes samples of another shape, and how to reshape them if that is possible."""
    found, takes = (sizes if len(sizes) > 1 else sizes[0] for sizes in (shape, wanted))
    same = math.prod(shape) == math.prod(wanted)
    remedy = f": X.reshape(len(X), {', '.join(map(str, wanted))})" if same else ""
    return f"the shards have {found} features a sample, but {model} takes {takes}{remedy}"
