"""Training a model on samples that are read as they are needed."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Self

import cloudpickle
import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._arrays.digest import digest
from consensus.data.shards import Shards
from consensus.frameworks.torch_inputs import TorchInputs
from consensus.frameworks.torch_loss import TorchLoss
from consensus.frameworks.trial import generators_here, watched
from consensus.losses.base import Loss, LossDefaults
from consensus.models import Model, Torch
from consensus.models.linearization import ModelDefaults
from consensus.problems.batch import Batch
from consensus.problems.held_out import HeldOut, as_trained
from consensus.problems.problem import Problem, check_labels, fitted_loss
from consensus.problems.samples import has_buffers, of_batches
from consensus.problems.state import Cache, SharedProblem, TestSet
from consensus.regularizers import Regularizer
from consensus.streaming.items import plain
from consensus.streaming.lazy_shards import LazyShards
from consensus.streaming.lazy_sums import LazySums
from consensus.streaming.mapped import file_of
from consensus.streaming.sent import Pickled, dumps
from consensus.workers.shared_memory import SharedArray
from topologies import _names

_TRIED = 3  # samples of the first agent
_AGAIN, _OFTEN = 64, 512  # items of all agents that are read again, and if random numbers are drawn on the way
_TOGETHER = 8  # items that are read at a time


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
    micro_batch : int, optional
        As of :class:`consensus.Problem`; ``shards.chunk`` at most.

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
        micro_batch: int | None = None,
    ) -> None:
        if not isinstance(shards, LazyShards):
            raise TypeError(f"shards must be LazyShards; got {_checks.shown(shards)}: consensus.Problem takes Shards")
        loss = _checks.completed(_checks.loss(loss), LossDefaults)
        if has_buffers(_checks.completed(model, ModelDefaults)):
            raise ValueError(
                f"{model} has batch normalisation, which is evaluated by statistics of all samples of an agent in one pass: "
                "give them to consensus.Problem, normalise by GroupNorm or LayerNorm, or call module.eval() first"
            )
        places = np.arange(min(_TRIED, int(shards.sizes[0])))
        x, d = shards.read(0, places)
        self.trial = None
        if shards.collate is None:
            self.trial = _Few(model, loss, Shards.from_list([(x, d)]), regularizer, "sum", micro_batch)
            model, dtype = self.trial.model, self.trial.dtype
            few = self.trial.shards
            self._sample, self._features = few.features.shape[2:], few.features.dtype
        elif isinstance(model, Torch):
            single = [shards.read(0, np.array([place])) for place in range(len(d))]
            model = TorchInputs.of(model, x, [one for one, _ in single])
            dtype, self._sample = model.dtype, (_size(plain(x)) // len(d),)
            _check_layouts(model, loss, [*single, (x, d)])
        else:
            raise TypeError(f"a collate function goes with consensus.models.Torch(module); got {model}")
        if of_batches(loss) and shards.most > shards.chunk:
            raise ValueError(
                f"{loss} is a loss of all samples of an agent together, and they are read {shards.chunk} at a time: give "
                f"LazyShards a chunk of {shards.most}"
            )
        several = [targets for targets in _targets_of_constant_items(shards) if targets.shape[1] == d.shape[1]]
        own = [d, *several] if isinstance(loss, TorchLoss) else [d]  # other losses check all targets as they are read
        shape = model.shape_of(x) if isinstance(model, TorchInputs) else model.output_shape
        loss = fitted_loss(loss, model, np.concatenate(own).astype(dtype), shape)
        if self.trial is not None:
            self.trial.loss = loss
        super().__init__(shards.rows, shards.network_size, model.parameters, dtype, regularizer)
        self.labels = getattr(shards, "labels", None)
        self.model, self.loss, self.shards, self._columns = model, loss, shards, d.shape[1]
        self.reduction = _checks.choice("reduction", reduction, ("mean", "sum"))
        self.micro_batch = None if micro_batch is None else _checks.count("micro_batch", micro_batch)
        self._scale = np.array(1 / self._total(d) if reduction == "mean" else 1.0, self.dtype)
        self._samples = int(shards.sizes.sum())
        self._plan_sums(math.prod(self._sample))

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

    def test_set(self, test: Any) -> TestSet:  # noqa: ANN401  # any dataset
        found = None if isinstance(test, Shards) else read_test(self, test)
        if found is not None:
            return found
        return super().test_set(test) if self.trial is None or isinstance(test, Shards) else self.trial.test_set(test)

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
        shards, weights_of = self.shards, self.loss.label_weights
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


class _Few(Problem):
    """The problem of a few samples, whose loss is tried on those of all agents."""

    def _fitted_loss(self, loss: Loss, model: ModelDefaults, shards: Shards) -> Loss:
        check_labels(model.output_shape, loss, shards.targets.shape[-1], model)
        return loss


def _check_layouts(model: TorchInputs, loss: Loss, batches: list[tuple[Any, np.ndarray]]) -> None:
    """Raise ``ValueError`` if labels are those of another layout of outputs, or no batch shows by their number which it is."""
    ambiguous: ValueError | None = None
    for inputs, targets in batches:
        shape = model.shape_of(inputs)
        try:
            check_labels(shape, loss, targets.shape[1], model)
        except ValueError as error:
            if len({math.prod(shape[1:]), math.prod(shape[:-1])}) > 1:
                raise
            ambiguous = error
        else:
            return
    if ambiguous is not None:
        raise ambiguous


def _targets_of_constant_items(shards: LazyShards) -> list[np.ndarray]:
    """Return the targets of some items of many agents; raise ``ValueError`` if items change from one reading to the next.

    They are read again until a difference in one of ten would have shown, and more often if reading draws random numbers.
    """
    agents = np.unique(np.linspace(0, shards.agents - 1, _AGAIN).astype(int)).tolist()
    most = -(-_AGAIN // len(agents))  # of each
    groups = [(agent, own) for agent in agents for own in _spread(int(shards.sizes[agent]), most)]
    with watched(generators_here()) as drawn:
        read = [_digest(shards, *group) for group in groups]
        least = _OFTEN if drawn() else _AGAIN
        for _ in range(-(-least // sum(len(own) for _, own in groups))):
            for group, (_, first) in zip(groups, read, strict=True):
                if _digest(shards, *group)[1] != first:
                    name = _names.agent(shards.rows[group[0]], shards.labels)
                    raise ValueError(
                        f"items of the dataset of {name} must be the same whenever they are read: leave "
                        "random augmentation to the module, which draws by seed, agent and round"
                    )
    return [targets for targets, _ in read]


def _spread(size: int, most: int) -> list[np.ndarray]:
    """Return at most so many places, from the first to the last, a few together."""
    places = np.unique(np.linspace(0, size - 1, min(size, most)).astype(int))
    return np.split(places, range(_TOGETHER, len(places), _TOGETHER))


def _digest(shards: LazyShards, agent: int, places: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the targets of some samples, and a digest of all that is read of them."""
    inputs, targets = shards.read(agent, places)
    return targets, digest(plain(inputs), targets)


def _size(inputs: Any) -> int:  # noqa: ANN401  # what `plain` returns
    """Return how many numbers there are in inputs."""
    if isinstance(inputs, dict | list):
        return sum(map(_size, inputs.values() if isinstance(inputs, dict) else inputs))
    return int(np.size(inputs))


def _spans(arrays: list[np.ndarray]) -> list[tuple[int, int]]:
    """Return where each array begins and ends in all of them, joined."""
    ends = np.cumsum([0, *map(len, arrays)]).tolist()
    return [*itertools.pairwise(ends)]


class ReadTest(NamedTuple):
    """A test set that is read as the samples of a :class:`LazyProblem` are, and the problem whose model and loss meet it."""

    shards: LazyShards  # of one agent, which has the test set
    problem: LazyProblem

    @property
    def samples(self) -> int:
        return self.shards.samples

    def digests(self) -> list[str]:
        """Return a digest of the test set, by which checkpoints know it."""
        return self.shards.digests()

    def errors(self, w: np.ndarray, buffers: np.ndarray | None = None) -> np.ndarray:
        """Return the mean error of every row of ``w``, some samples at a time; ``buffers`` are None, as there are none."""
        wrong, total = np.zeros(len(w)), 0.0
        for start in range(0, self.samples, self.shards.chunk):
            X, y, counts = self.read(start, start + self.shards.chunk)
            wrong += self._wrong(w, X, y, counts)
            total += counts.sum()
        if not total:
            raise ValueError(f"test must have labels that count with {self.problem.loss}; it ignores them all")
        return wrong / total

    def read(self, start: int, stop: int) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return inputs and targets of some samples, and how many of each one's labels count."""
        loss = self.problem.loss
        X, y = self.shards.read(0, np.arange(start, min(stop, self.samples)))
        y = y.astype(self.problem.dtype)
        counts = loss.label_counts(y)
        return X, y, np.broadcast_to(counts, len(y)).astype(float)

    def _wrong(self, w: np.ndarray, X: Any, y: np.ndarray, counts: np.ndarray) -> np.ndarray:  # noqa: ANN401  # as collated
        model: Any = self.problem.model  # which takes collated inputs, too, if there are any
        loss = self.problem.loss
        if self.problem.trial is not None:
            X = as_trained("test", X, self.problem.trial.shards.features.dtype)
            return HeldOut(np.ascontiguousarray(X), y, model, loss, counts, self.problem.micro_batch).errors(w)
        of_rows = [loss.error(model.predict(row[None], [X]), y[None])[0] @ counts for row in w]
        return np.array(of_rows)


def read_test(problem: LazyProblem, test: Any) -> ReadTest | None:  # noqa: ANN401  # any dataset
    """Return the test set; None if it is a pair (X, y) in memory, for a problem whose samples are such pairs.

    It raises a ``TypeError`` or ``ValueError`` if its first samples do not fit the problem.
    """
    chunk, collate = problem.shards.chunk, problem.shards.collate
    pair = isinstance(test, tuple | list) and len(test) == 2
    if collate is None and pair and not (isinstance(test[0], np.ndarray) and file_of(test[0]) is not None):
        return None
    try:
        shards = LazyShards.from_list([test], collate, chunk=chunk)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("datasets[0]", "test")) from error
    _checks.needs("test", problem.loss, "error")
    found = ReadTest(shards, problem)
    X, y, counts = found.read(0, 3)
    if problem.trial is not None:
        wanted = problem.trial.shards.features.shape[2:]
        if X.shape[1:] != wanted:
            raise ValueError(f"test features must have shape {wanted} a sample, as in training; got {X.shape[1:]}")
        problem.loss.check(y, problem.model.outputs)
    start = problem.model.init(np.random.default_rng(0)).astype(problem.dtype)
    found._wrong(start[None], X, y, counts)
    return found
