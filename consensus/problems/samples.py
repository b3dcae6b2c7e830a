"""Values and gradients of sums over samples: some agents after others, by compiled kernels where there are some."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, NamedTuple, Self, TypeAlias, cast

import numpy as np

from consensus import _checks, kernels
from consensus._arrays.parallel import CHUNK_BYTES, for_chunks, one_blas_thread, one_chunk
from consensus._arrays.rows import combined, empty, pooled, taken
from consensus._arrays.sparse import SparseRows
from consensus.data import Shards
from consensus.kernels.fused import FusedSums, Prepared
from consensus.losses.base import Loss
from consensus.models import linearize
from consensus.models.linearization import ModelDefaults, parts
from consensus.problems.base import BaseProblem
from consensus.problems.batch import Batch, NumberedBatch, checked
from consensus.problems.state import Cache, Work
from consensus.regularizers import L2

_SIZES = 32  # that are tried, the smallest and the largest ones


def by_agent(function: ChunkFunction, model: ModelDefaults, loss: Loss, batch: Batch | None) -> ChunkFunction:
    """Return ``function(w, x, d, c, out)`` for agents one by one, as a function of ``(w, x, d, c, out, numbers)``.

    ``numbers`` (agents,) are those of the agents in the network. Each call gets the keyword ``model``, with the random numbers
    of this agent and the batch's draw, and no padding: what is drawn depends on the shapes of arrays, which must not depend on
    how agents are spread over chunks and processes. With all samples, batch None, that is in evaluation mode but for batch
    normalisation, which is by the samples of the call in both.
    """
    draw, normalises = batch.draw if isinstance(batch, NumberedBatch) else None, has_buffers(model)
    plain = not trains_apart(model)  # whose loss is one of a batch
    if batch is not None and draw is None and model.stochastic:
        raise ValueError(
            f"batch must have the number of its draw, as NumberedBatch.of(indices, weights, round), because {model} draws "
            "random numbers: take consensus.Minibatches(32).at(problem, round), or call module.eval() first"
        )

    def of_each(w: np.ndarray, x: np.ndarray, d: np.ndarray, c: np.ndarray, out: np.ndarray, numbers: np.ndarray) -> None:
        for place, agent in enumerate(numbers.tolist()):
            used = np.flatnonzero(c[place])
            one, end = slice(place, place + 1), used[-1] + 1 if len(used) else 1
            if len(used) < (least := fewest(model, loss)):
                raise ValueError(
                    f"agent {agent} has a batch of one sample, and {needing(model, loss)} {least} or more: give every agent "
                    "more, and batches whose last one in an epoch is none of a single sample, or "
                    "Minibatches(size, replacement=True)"
                )
            several = normalises or of_batches(loss)
            own = used if several and len(used) < end else slice(0, end)  # samples without weight are no part of a batch
            called: Any = model
            if not plain and (normalises or batch is not None):
                called = called.normalised() if batch is None else called.drawn(agent, draw or 0)
                called = _checks.completed(called, ModelDefaults)
            samples = (x, d, c) if isinstance(x, list) else (x[one, own], d[one, own], c[one, own])  # a collated one has none
            function(w[one], *samples, out[one], model=called)

    return of_each


def trains_apart(model: ModelDefaults) -> bool:
    """Return whether gradients of batches are those of a training mode, of one agent at a time."""
    return model.stochastic or model.apart or has_buffers(model)


def of_batches(loss: Loss | None) -> bool:
    """Return whether a loss is one of all samples of an agent's batch together, of which padding is no part."""
    return loss is not None and loss.over == "batch"


def check_sizes(loss: Loss, sizes: list[int], targets: np.ndarray, outputs: int) -> None:
    """Raise ``ValueError`` if a loss of a batch fails on batches of some sizes, as one of pairs does on odd ones."""
    for size in sizes if len(sizes) <= _SIZES else [*sizes[: _SIZES // 2], *sizes[-_SIZES // 2 :]]:
        f, d = np.random.default_rng(0).random((size, outputs)), np.resize(targets, (size, *targets.shape[1:])).astype(float)
        try:
            loss.value(f, d)
        except Exception as error:
            raise ValueError(
                f"{loss} fails on a batch of {size} samples: {type(error).__name__}: {error}; agents have batches of {sizes}: "
                "let it take any number, or give every agent a multiple of the batch"
            ) from error


def fewest(model: Any, loss: Any) -> int:  # noqa: ANN401  # None if there is none
    """Return how many samples a batch needs, of a model that normalises them or a loss of a batch; 1 of others."""
    return max(model.least if has_buffers(model) else 1, loss.least if of_batches(loss) else 1)


def needing(model: ModelDefaults | None, loss: object) -> str:
    """Return what needs so many samples, as the subject of a sentence and its verb."""
    return f"{model} normalises" if has_buffers(model) else f"{loss} is a loss of"


def averaged(buffers: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Return the buffers (B,) over the samples of all agents, from each agent's own (agents, B) and number of samples."""
    means, variances = np.split(buffers.astype(float), 2, axis=1)
    return np.concatenate(pooled(samples.astype(float), means, variances)).astype(buffers.dtype)


def has_buffers(model: ModelDefaults | None) -> bool:
    """Return whether a model has batch normalisation in training, whose statistics evaluation needs as buffers."""
    return model is not None and model.buffers is not None


def pulled_back(
    w: np.ndarray, x: np.ndarray, d: np.ndarray, c: np.ndarray, out: np.ndarray, model: ModelDefaults, loss: Loss
) -> np.ndarray:
    """Write the gradients of agents with samples (x, d) and weights c into ``out``; return the outputs of the model there."""
    own = model.linearize  # enough for a single product with the Jacobian
    outputs, linearization = own(w, x) if own else linearize(model, w, x)
    slopes = loss.gradient(outputs, d)
    slopes *= c[:, :, None]
    linearization.vjp(slopes, out=out)
    return outputs


def by_model(w: np.ndarray, x: np.ndarray, d: np.ndarray, c: np.ndarray, out: np.ndarray, model: object, loss: Loss) -> None:
    """Write the same gradients into ``out``, by the model's own function for them."""
    cast(Any, model).gradient_of(loss)(w, x, d, c, out=out)


_FEW = 1 << 20  # bytes of features, of all agents: one core reads them in less time than it takes to distribute them
_MUCH = 8 << 20  # bytes of features, of all agents: a kernel that reads them again and again waits for memory
_SINGLE = 1 << 16  # samples whose losses a kernel adds up in float32
_STORED = 128  # numbers in a sparse sample, about
ChunkFunction: TypeAlias = Callable[..., object]  # of w, x, d, c, out: points, samples and their weights, and the result
Then: TypeAlias = Callable[[slice, np.ndarray], object]  # of rows, and what was written there


def weighted_sum(losses: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """Write the weighted sums of losses (agents, samples) into ``out`` (agents,); those of float32 are added in float64."""
    if out.dtype == np.float64:
        np.vecdot(losses, weights, out)
    else:
        out[...] = np.multiply(losses, weights).sum(axis=-1, dtype=np.float64)


def done(rows: slice, found: np.ndarray) -> None:
    """Go on with nothing."""


class SumPlan(NamedTuple):
    """Plan of sums over so many samples of each agent; chosen by the largest shard, so that all engines have equal bits."""

    few: int  # samples of an agent in one pass
    apart: bool  # each agent by itself: its samples depend on each other
    alone: bool  # whether they fill a cache: then a chunk is one agent, without padding
    touched: int  # bytes of an agent, and those that need not fit into a cache
    streamed: int
    shared: bool  # whether threads share the chunks
    whole: bool  # whether all agents held here are one chunk


class SampleSums(BaseProblem):
    """``g_i(w) = sum_m c_m l(f(w, x_m), d_m)``: how a :class:`consensus.Problem` adds over its samples."""

    model: ModelDefaults
    loss: Loss
    shards: Shards
    weights: np.ndarray
    micro_batch: int | None = None  #: samples of an agent in one pass through the model; None: as many as fit
    _samples: int

    def _plan_sums(self, size: int) -> None:
        """Choose how to add, once the attributes above are set; ``size`` is how many numbers a sample's features are."""
        self._write_gradients = self._gradient_writer(self.model)
        self._fused = self._write_gradients if isinstance(self._write_gradients, FusedSums) else None
        # The number times w that the regularizer adds to gradients; None if that is not all.
        r = self.regularizer
        self._ridge = r.weight if self.nonconvex is None and type(r) is L2 and type(r.weight) is float else None
        self._agents_per_call = self.model.agents_per_call
        self._little = self.model.little or self._agents_per_call * CHUNK_BYTES
        # The numbers that a gradient touches: for each sample, in all layers of the model, and once for each agent. Sparse
        # samples have fewer, how many is not counted: bits depend on it, and no process knows all agents' samples.
        size = min(size, _STORED) if isinstance(getattr(self.shards, "features", None), SparseRows) else size
        numbers = size + 2 * sum((self.model.widths or (size, self.model.outputs))[1:])
        self._sample_bytes, self._agent_bytes = (count * self.dtype.itemsize for count in (numbers, 2 * self.parameters))

    def true_gradients(self) -> Self:
        if self.model.exact is None:
            return self
        problem = copy.copy(self)
        problem.model, problem.cache = _checks.completed(self.model.exact, ModelDefaults), Cache()
        problem._write_gradients = self._gradient_writer(problem.model)
        return problem

    def _gradient_writer(self, model: ModelDefaults) -> ChunkFunction:
        """Return the function of a chunk that writes the gradients: a kernel, the model's own, or by its linearization."""
        own = model.gradient_of(self.loss)
        if isinstance(own, FusedSums):
            return cast(ChunkFunction, own)
        return functools.partial(pulled_back if own is None else by_model, model=model, loss=self.loss)

    def _value(self, w: np.ndarray) -> np.ndarray:
        if prepared := self._kernel_calls():
            return prepared.value(w)

        def summed(
            w: np.ndarray, x: np.ndarray, d: np.ndarray, c: np.ndarray, out: np.ndarray, model: ModelDefaults = self.model
        ) -> None:
            if self._fused is None:
                weighted_sum(self.loss.value(model.predict(w, x), d), c, out)
            elif out.dtype == np.float64 or c.shape[1] <= _SINGLE:
                self._fused.value(w, x, d, c, out)
            else:  # in float32 rounding would add up
                blocks = [slice(start, start + _SINGLE) for start in range(0, c.shape[1], _SINGLE)]
                sums = np.empty((len(blocks), *out.shape), out.dtype)
                for own, some in zip(sums, blocks, strict=True):
                    self._fused.value(w, x[:, some], d[:, some], c[:, some], own)
                out[...] = sums.sum(axis=0, dtype=np.float64)

        return self._over_samples(summed, w, ())

    def _gradient(self, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        if batch is None and (prepared := self._kernel_calls()):
            return prepared.gradient(w)
        return self._over_samples(self._write_gradients, w, (self.parameters,), batch)

    _batch_gradient = _gradient

    @property
    def one_pass(self) -> bool:  # type: ignore[override]  # whether the model's outputs are at hand
        return self._fused is None

    def _value_and_gradient(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._fused is not None:  # a kernel for each
            return super()._value_and_gradient(w)

        def summed(
            w: np.ndarray, x: np.ndarray, d: np.ndarray, c: np.ndarray, out: np.ndarray, model: ModelDefaults = self.model
        ) -> None:
            outputs = pulled_back(w, x, d, c, out[:, 1:], model, self.loss)
            weighted_sum(self.loss.value(outputs, d), c, out[:, 0])

        both = self._over_samples(summed, w, (1 + self.parameters,))  # one array, as sums over parts of shards add up one
        return both[:, 0], both[:, 1:]

    def average_gradient(self, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        if self._ridge is None:
            return super().average_gradient(w, batch)
        w = self._stack(w)
        self.work.count(self._samples if batch is None else 0)
        if batch is None and (prepared := self._kernel_calls()) and prepared.average:
            return prepared.average(w)
        if self._fused is not None:
            summed = functools.partial(self._write_gradients, scale=self.network_size, ridge=self._ridge)
            return self._over_samples(summed, w, (self.parameters,), batch)
        numbers = np.array(self.network_size, self.dtype), np.array(self._ridge, self.dtype)

        def average(rows: slice, gradient: np.ndarray) -> None:
            kernels.combined(gradient, w[rows], *numbers, out=gradient)

        return self._over_samples(self._write_gradients, w, (self.parameters,), batch, average)

    def descended(self, x: np.ndarray, alpha: float, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        if self._ridge is None or x.dtype != self.dtype:
            return super().descended(x, alpha, w, batch)
        if self._fused is not None:
            return combined(1, x, -float(alpha), self.average_gradient(w, batch))
        w = self._stack(w)
        self.work.count(self._samples if batch is None else 0)
        numbers = np.array(alpha, self.dtype), np.array(self.network_size, self.dtype), np.array(self._ridge, self.dtype)

        def descend(rows: slice, gradient: np.ndarray) -> None:
            kernels.descended(x[rows], gradient, w[rows], *numbers, out=gradient)  # number by number, in its place

        return self._over_samples(self._write_gradients, w, (self.parameters,), batch, descend)

    def _kernel_calls(self) -> Prepared | None:
        """Return the functions of w that are a single call of a kernel, made once; None if a sum takes more than that."""
        return self.cache.get(SampleSums, self._make_kernel_calls)

    def _make_kernel_calls(self) -> Prepared | None:
        x, d, fused = self.shards.features, self.shards.targets, self._fused
        few = x.nbytes <= _FEW and 2 * x.shape[1] * self._sample_bytes <= self._little
        return fused.prepared(x, d, self.weights, self.network_size, self._ridge) if few and fused else None

    def _over_samples(
        self, function: ChunkFunction, w: np.ndarray, row: tuple[int, ...], batch: Batch | None = None, then: Then = done
    ) -> np.ndarray:
        """Return what ``function(w, x, d, c, out)`` writes to ``out`` (agents, *row), for samples (x, d) with weights c.

        All agents have their turn, with all samples or those of a batch, which gives the bits of shards of these samples alone
        if they are in their order. ``then(rows, out[rows])`` goes on with a chunk while it is in cache. A block of one chunk is
        worked here; others are spread over threads, which takes two calls more on the way to each chunk.
        """
        x, d, c, out = self.shards.features, self.shards.targets, self.weights, empty((self.agents, *row), self.dtype)
        if batch is not None:
            batch = checked(batch, self.agents, c.shape[1])
            self.work.samples += int(np.count_nonzero(batch.weights))
            c = taken(c, batch.indices) * batch.weights
        plan, numbers = self._plan_for(c.shape[1]), tuple[np.ndarray, ...]()
        if plan.apart or (batch is not None and trains_apart(self.model)):
            function, numbers = by_agent(function, self.model, self.loss, batch), (self.rows,)
        elif batch is None and c.shape[1] > plan.few:
            passes, plan = tuple(parts(c.shape[1], plan.few)), self._plan_for(plan.few)
            function = of_parts(unpadded(function) if plan.alone else function, passes)
        elif plan.alone:
            function = unpadded(function)

        def cut(rows: slice) -> tuple[np.ndarray, ...]:
            xs, ds = x[rows], d[rows]
            if batch is not None:
                places = batch.indices[rows]
                xs, ds = taken(xs, places), taken(ds, places)
            return w[rows], xs, ds, c[rows], out[rows], *map(itemgetter(rows), numbers)

        def chunk(rows: slice) -> None:
            function(*cut(rows))
            then(rows, out[rows])

        if plan.whole and one_blas_thread.depth:
            everyone = slice(0, self.agents)
            function(*cut(everyone))
            then(everyone, out)
        else:
            all_stream = self._fused is not None and batch is None  # kernels need no chunks that fit into a cache
            for_chunks(chunk, self.agents, plan.touched, 0, plan.touched if all_stream else plan.streamed, plan.shared)
        return out

    @property
    def samples_at_once(self) -> int:
        """The most samples of an agent in one pass through the model; sums over more samples add several passes."""
        if self._fused is not None or has_buffers(self.model) or of_batches(self.loss):  # kernels keep nothing; others need all
            return sys.maxsize
        return self.micro_batch or self.model.samples_at_once(self.dtype)

    def _plan_for(self, count: int) -> SumPlan:
        """Return how sums over ``count`` samples of each agent go; found once."""
        return self.cache.get((SumPlan, count), lambda: self._made_plan(count))

    def _made_plan(self, count: int) -> SumPlan:
        touched = self.bytes_touched(count)
        fills, streamed = 2 * count * self._sample_bytes > self._little, self._agent_bytes
        if self._agents_per_call > 1 and not fills:
            streamed = max(streamed, touched - CHUNK_BYTES // self._agents_per_call)
        return SumPlan(
            few=self.samples_at_once,
            apart=has_buffers(self.model) or of_batches(self.loss),
            alone=fills and self._fused is None,  # kernels skip padding anyway
            touched=touched,
            streamed=streamed,
            shared=self.model.worth_a_thread(count),
            whole=one_chunk(self.agents, touched, streamed),
        )

    def bytes_touched(self, samples: int) -> int:
        """Return how many bytes a gradient on so many samples touches for one agent."""
        return _checks.count("samples", samples, least=0) * self._sample_bytes + self._agent_bytes


def in_turn(walk: Callable[..., np.ndarray], problem: BaseProblem, batch: object, *rows: np.ndarray) -> np.ndarray:
    """Return ``walk(problem, *rows)``, an array like the first of ``rows`` (agents, ...), made by several gradients.

    Where kernels take them of all samples, batch None, and these do not fit into a cache, some agents walk to the end before
    the others begin, so that samples are read from memory once. Results and counts of work are the same.
    """
    features = getattr(problem.shards, "features", None) if isinstance(problem, SampleSums) and problem._fused else None
    if batch is not None or features is None or features.nbytes < _MUCH:
        return walk(problem, *rows)
    found, works, size = np.empty_like(rows[0]), [], features[0].nbytes

    def chunk(some: slice) -> None:
        own = problem.cache.get((in_turn, some.start, some.stop), lambda: problem.restrict(some))
        own.work = Work()
        found[some] = walk(own, *(array[some] for array in rows))
        works.append(own.work)

    for_chunks(chunk, problem.agents, size)
    problem.work.gradients += works[0].gradients
    problem.work.samples += sum(work.samples for work in works)
    return found


def unpadded(function: ChunkFunction) -> ChunkFunction:
    """Return ``function`` without the samples of weight zero at an agent's end, for chunks of one agent."""

    def of_one(w: np.ndarray, x: np.ndarray, d: np.ndarray, c: np.ndarray, out: np.ndarray) -> None:
        used = c.shape[1] if c[0, -1] else c.shape[1] - int(np.argmax(c[0, ::-1] != 0))
        function(w, x[:, :used], d[:, :used], c[:, :used], out)

    return of_one


def of_parts(function: ChunkFunction, passes: tuple[slice, ...]) -> ChunkFunction:
    """Return a function that adds up ``function`` over some samples after others."""

    def summed(w: np.ndarray, x: np.ndarray, d: np.ndarray, c: np.ndarray, out: np.ndarray) -> None:
        added_up(function, ((slice(None), x[:, some], d[:, some], c[:, some]) for some in passes), w, out)

    return summed


def added_up(
    function: ChunkFunction,
    passes: Iterable[tuple[slice, Any, np.ndarray, np.ndarray]],
    w: np.ndarray,
    out: np.ndarray,
    *numbers: np.ndarray,
) -> None:
    """Write the sums of ``function(w, x, d, c, out, *numbers)`` over some ``passes``, (rows, x, d, c), into ``out``."""
    begun = np.zeros(len(out), bool)
    for rows, x, d, c in passes:
        if begun[rows].all() and not c.any():  # padding
            continue
        part = np.empty_like(out[rows]) if begun[rows].any() else out[rows]
        function(w[rows], x, d, c, part, *(array[rows] for array in numbers))
        if begun[rows].any():
            out[rows] += part
        begun[rows] = True
