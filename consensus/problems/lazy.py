"""Training a model on samples that are read as they are needed."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import replace
from typing import Any, Literal, Self

import cloudpickle
import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._contents import digest
from consensus.data.items import plain
from consensus.data.lazy import LazyShards
from consensus.data.sent import Pickled, dumps
from consensus.data.shards import Shards
from consensus.losses.base import Loss
from consensus.models import Model, Torch
from consensus.models.torch_inputs import TorchInputs
from consensus.problems.batch import Batch
from consensus.problems.cache import Cache
from consensus.problems.draws import has_buffers
from consensus.problems.lazy_sums import LazySums
from consensus.problems.model import Problem
from consensus.problems.shared import SharedProblem
from consensus.regularizers import Regularizer
from consensus.workers.shared_memory import SharedArray

_TRIED = 3  # samples of the first agent


class LazyProblem(LazySums):
    """Training a model on samples that are read as they are needed, batch by batch: costs as of :class:`consensus.Problem`.

    ``g_i(w) = c sum_m l(f(w, x_m), d_m)`` over the samples m of agent i. Gradients of batches read these batches alone;
    objectives, gradients of all samples and metrics of them are passes over the datasets, ``shards.chunk`` samples of an agent
    at a time. There are no Jacobians of all samples: solvers that linearise the model reject this problem, and step sizes have
    to be given.

    Parameters
    ----------
    model : Model
        The model f. With a collate function it is a :class:`consensus.models.Torch`: dictionaries are given to its module by
        name, ``module(**inputs)``, all else as ``module(inputs)``, and what has ``logits`` returns these. The run then is in
        the precision of the module's parameters, and a sample's outputs must not depend on the padding of its batch.
    loss : Loss
        The loss l.
    shards : LazyShards
        The samples.
    regularizer : Regularizer, optional
        The regularizer r; none if omitted.
    reduction : {"mean", "sum"}
        As of :class:`consensus.Problem`. If labels have weights, or some are ignored, ``mean`` takes a pass over all datasets.

    Raises
    ------
    ValueError
        If the first agent's samples do not fit the model or the loss, or differ when they are read again; if the model has
        batch normalisation in training mode.
    TypeError
        If an argument lacks what is needed, or there is a collate function and another model.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.data import LazyShards
    >>> from consensus.problems import LazyProblem
    >>> datasets = [[(np.array([k, 1.0]), k + agent) for k in (0.0, 1.0, 2.0)] for agent in range(4)]
    >>> problem = LazyProblem(consensus.Linear(2), consensus.SquaredLoss(), LazyShards.from_list(datasets), consensus.L2(0.1))
    >>> solver = consensus.solvers.DGD(0.1, batch=2)
    >>> result = consensus.solve(problem, topologies.ring(4), solver, rounds=50, record_every=50)
    >>> bool(result.history["objective"][-1] < 0.3 * result.history["objective"][0])
    True
    """

    def __init__(
        self,
        model: Model,
        loss: Loss,
        shards: LazyShards,
        regularizer: Regularizer | None = None,
        reduction: Literal["mean", "sum"] = "mean",
    ) -> None:
        if not isinstance(shards, LazyShards):
            raise TypeError(f"shards must be LazyShards; got {_checks.shown(shards)}: consensus.Problem takes Shards")
        _checks.loss(loss)
        if has_buffers(model):
            raise ValueError(
                f"{model} has batch normalisation, which is evaluated by statistics of all samples of an agent in one pass: "
                "give them to consensus.Problem, normalise by GroupNorm or LayerNorm, or call module.eval() first"
            )
        x, d = _first(shards)
        self.trial = None
        if shards.collate is None:
            self.trial = Problem(model, loss, Shards.from_list([(x, d)]), regularizer, "sum")
            model, dtype = self.trial.model, self.trial.dtype
            few = self.trial.shards
            self._sample, self._features = few.features.shape[2:], few.features.dtype
        elif isinstance(model, Torch):
            model = TorchInputs.of(model, x, [shards.read(0, np.array([place]))[0] for place in range(len(d))])
            dtype, self._sample = model.dtype, (_size(plain(x)) // len(d),)
            loss.check(d.astype(dtype), model.outputs)
        else:
            raise TypeError(f"a collate function goes with consensus.models.Torch(module); got {model}")
        super().__init__(shards.rows, shards.network_size, model.parameters, dtype, regularizer)
        self.model, self.loss, self.shards, self._columns = model, loss, shards, d.shape[1]
        self.reduction = _checks.choice("reduction", reduction, ("mean", "sum"))
        self._scale = np.array(1 / self._total(d) if reduction == "mean" else 1.0, self.dtype)
        self._samples = int(shards.sizes.sum())
        self._prepare_sums(math.prod(self._sample))

    def __repr__(self) -> str:
        size, r = f"{self.agents} agents, {self.shards.samples} samples", self.nonconvex or self.regularizer
        return f"LazyProblem({self.model}, {self.loss}, {size}, {r}, reduction={self.reduction!r})"

    @property
    def load(self) -> np.ndarray:
        return self.shards.sizes + 1.0

    def digests(self) -> list[str]:
        return self.shards.digests()

    def restrict(self, rows: slice | ArrayLike) -> Self:
        rows = _checks.rows(rows, self.agents)
        block = super().restrict(rows)
        block.shards = self.shards.restrict(rows)
        block._samples = int(block.shards.sizes.sum())
        return block if self._only is None else block.sampled(Batch(*(array[rows] for array in self._only)))

    def sampled(self, batch: Batch) -> Self:
        """Return the problem of the same agents with the samples of a batch only; its work counts as this problem's.

        Parameters
        ----------
        batch : Batch
            The samples.

        Returns
        -------
        LazyProblem
            A problem whose gradient is ``gradient(w, batch)``; of a stochastic model, that of its evaluation mode.
        """
        problem = copy.copy(self)
        problem._only, problem._samples, problem.cache = batch, int(np.count_nonzero(batch.weights)), Cache()
        return problem

    def shared(self) -> SharedProblem:
        bare, shards = self.restrict(slice(None)), self.shards
        datasets = {id(dataset): dataset for dataset in shards.datasets}  # agents may have the same
        contents = [np.frombuffer(dumps(dataset), np.uint8) for dataset in datasets.values()]
        numbers = [np.empty(0, np.int64) if own is None else own for own in shards.indices]
        places, spans = dict(zip(datasets, _spans(contents), strict=True)), _spans(numbers)
        bare.shards = replace(
            shards,
            datasets=tuple(places[id(dataset)] for dataset in shards.datasets),
            indices=tuple(np.array(span) if own is not None else None for own, span in zip(shards.indices, spans, strict=True)),
        )
        arrays = np.concatenate(contents), np.concatenate([*numbers, np.zeros(1, np.int64)])  # no array may be empty
        return SharedProblem(cloudpickle.dumps(bare), tuple(map(SharedArray.of, arrays)))

    def take(self, contents: np.ndarray, numbers: np.ndarray) -> None:
        """Use these arrays in place of what :meth:`shared` left out.

        Parameters
        ----------
        contents : ndarray of uint8
            The pickled datasets.
        numbers : ndarray of int
            The agents' samples in them.
        """
        opened = {place: Pickled(contents[slice(*place)]) for place in set(self.shards.datasets)}
        self.shards = replace(
            self.shards,
            datasets=tuple(opened[place] for place in self.shards.datasets),
            indices=tuple(None if place is None else numbers[slice(*place)] for place in self.shards.indices),
        )

    def _total(self, d: np.ndarray) -> float:
        """Return the sum of the labels' weights, over all samples of the network if they differ from those of ``d``."""
        shards, weights_of = self.shards, getattr(self.loss, "label_weights", lambda targets: 1.0)
        alike = weights_of(d.astype(self.dtype))
        if not isinstance(alike, np.ndarray) and (alike == 1 or shards.collate is None):
            return float(alike) * shards.samples
        if shards.agents < shards.network_size:
            raise ValueError(
                f"reduction='mean' divides by the weights of all labels of the network with {self.loss}, and these are shards "
                f"of {shards.agents} of {shards.network_size} agents: take reduction='sum', and divide by their total"
            )
        total = 0.0
        for agent, size in enumerate(shards.sizes.tolist()):
            for start in range(0, size, shards.chunk):
                labels = shards.read(agent, np.arange(start, min(start + shards.chunk, size)))[1].astype(self.dtype)
                total += float(np.broadcast_to(weights_of(labels), len(labels)).sum())
        if not total:
            raise ValueError(f"samples must have labels that count with {self.loss}; in these shards all have the weight zero")
        return total


def _first(shards: LazyShards) -> tuple[Any, np.ndarray]:
    """Return some samples of the first agent; raise ``ValueError`` if they differ when they are read again."""
    places = np.arange(min(_TRIED, int(shards.sizes[0])))
    (x, d), again = shards.read(0, places), shards.read(0, places)
    if digest(plain(x), d) != digest(plain(again[0]), again[1]):
        raise ValueError(
            f"items of the dataset of agent {shards.rows[0]} must be the same whenever they are read: leave random "
            "augmentation to the module, which draws by seed, agent and round"
        )
    return x, d


def _size(inputs: Any) -> int:  # noqa: ANN401  # what `plain` returns
    """Return how many numbers there are in inputs."""
    if isinstance(inputs, dict | list):
        return sum(map(_size, inputs.values() if isinstance(inputs, dict) else inputs))
    return int(np.size(inputs))


def _spans(arrays: list[np.ndarray]) -> list[tuple[int, int]]:
    """Return where each array begins and ends in all of them, joined."""
    ends = np.cumsum([0, *map(len, arrays)]).tolist()
    return [*itertools.pairwise(ends)]
