"""Values and gradients of sums over samples: some agents after others, by compiled kernels where there are some."""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import ArrayLike

from consensus import kernels
from consensus._parallel import CHUNK_BYTES, for_chunks
from consensus._rows import combined, empty, taken
from consensus.data import Shards
from consensus.kernels.fused import FusedSums
from consensus.losses.base import Loss
from consensus.models.base import Model, linearize
from consensus.problems.base import BaseProblem
from consensus.problems.batch import Batch, checked
from consensus.regularizers import L2

_FEW = 1 << 20  # bytes of features, of all agents: one core reads them in less time than is spent on handing them out


class SampleSums(BaseProblem):
    """``g_i(w) = sum_m c_m l(f(w, x_m), d_m)``: the part of a :class:`consensus.Problem` that adds."""

    model: Model
    loss: Loss
    shards: Shards
    weights: np.ndarray
    _samples: int

    def _prepare_sums(self):
        """Find out how to add, once the attributes above are there."""
        faster = self._faster()
        self._fused = faster if isinstance(faster, FusedSums) else None
        # The number times w that the regularizer adds to gradients; None where that is not all.
        self._ridge = self.regularizer.weight if self.nonconvex is None and type(self.regularizer) is L2 else None
        self._together = getattr(self.model, "together", 1)
        # What a gradient touches: for a sample, with its numbers on their way through the model, and for an agent once.
        size = math.prod(self.shards.features.shape[2:])
        numbers = size + 2 * sum(getattr(self.model, "widths", (size, self.model.outputs))[1:])
        self._sample_bytes, self._agent_bytes = (count * self.dtype.itemsize for count in (numbers, 2 * self.parameters))

    def _faster(self):
        """The model's own way to the gradient with this loss, or None."""
        gradient_of = getattr(self.model, "gradient_of", None)
        return gradient_of(self.loss) if gradient_of else None

    def _value(self, w: np.ndarray) -> np.ndarray:
        if known := self._at_once():
            return known.value(w)
        values, x, d, c = np.empty(self.agents, self.dtype), self.shards.features, self.shards.targets, self.weights

        def summed(x, d, c, w, out):
            if self._fused is not None:
                self._fused.value(w, x, d, c, out)
            else:
                np.vecdot(self.loss.value(self.model.predict(w, x), d), c, out)

        self._over_all(summed, (x, d, c, w, values))
        return values

    def gradient(self, w: ArrayLike, batch: Batch | None = None) -> np.ndarray:
        if batch is None and self.nonconvex is None and (known := self._at_once()):
            w = self._stack(w)
            self.work.gradients += 1
            self.work.samples += self._samples
            return known.gradient(w)
        return super().gradient(w, batch)

    def _gradient(self, w: np.ndarray) -> np.ndarray:
        return self._sum(w, None)

    def _batch_gradient(self, w: np.ndarray, batch: Batch) -> np.ndarray:
        return self._sum(w, batch)

    def average_gradient(self, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        if self._ridge is None:
            return super().average_gradient(w, batch)
        w = self._stack(w)
        self.work.gradients += 1
        if batch is None and (known := self._at_once()):
            self.work.samples += self._samples
            return known.average(w)
        return self._sum(w, batch, self.network_size, self._ridge)

    def descended(self, x: np.ndarray, alpha: float, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        if self._ridge is None or x.dtype != self.dtype:
            return super().descended(x, alpha, w, batch)
        if self._fused is not None:
            return combined(1, x, -float(alpha), self.average_gradient(w, batch))
        self.work.gradients += 1
        w, result = self._stack(w), empty(x.shape, self.dtype)
        numbers = [np.array(number, self.dtype) for number in (alpha, self.network_size, self._ridge)]

        def descend(features, targets, weights, w, x, result):
            gradient = np.empty(w.shape, self.dtype)
            self._linearized(features, targets, weights, w, gradient)
            kernels.descended(x, gradient, w, *numbers, out=result)

        self._with_samples(descend, batch, (w, x, result))
        return result

    def _sum(self, w, batch, scale=None, ridge=0.0):
        """The sum of the gradients of a ``batch``'s samples times their weights, or of all samples'.

        With a ``scale`` it is taken times that, and ``ridge`` w added, while it is in cache.
        """
        gradient = empty(w.shape, self.dtype)
        self._with_samples(self._linearized, batch, (w, gradient), scale, ridge)
        return gradient

    def _at_once(self):
        """The functions of w that are a call of a kernel, made once, where that is all that there is to a sum; else ()."""
        return self.cache.get(SampleSums, self._made_at_once)

    def _made_at_once(self):
        x, d, fused = self.shards.features, self.shards.targets, self._fused
        few = x.nbytes <= _FEW and not self._fills_cache(x.shape[1])
        return fused.prepared(x, d, self.weights, self.network_size, self._ridge) if few and fused else ()

    def _with_samples(self, function, batch, arrays, *more):
        """Call ``function(x, d, c, *arrays, *more)``, some agents after others, with a ``batch``'s samples or all.

        These are x (agents, samples, ...), targets d and weights c (agents, samples); they are counted.
        """
        x, d, c = self.shards.features, self.shards.targets, self.weights
        if batch is None:
            self.work.samples += self._samples
            self._over_all(function, (x, d, c, *arrays), *more)
            return

        batch = checked(batch, self.agents, c.shape[1])
        self.work.samples += int(np.count_nonzero(batch.weights))
        c, count = taken(c, batch.indices) * batch.weights, batch.indices.shape[1]
        function = self._unpadded(function, count)

        def of_batch(places, x, d, *rest):
            function(taken(x, places), taken(d, places), *rest)

        self._by_rows(of_batch, (batch.indices, x, d, c, *arrays), self._bytes(count), self._streamed(count), *more)

    def _over_all(self, function, arrays, *more):
        """Call ``function(*arrays, *more)`` for all samples, some agents after others."""
        most = self.weights.shape[1]
        touched = self._bytes(most)
        streamed = self._streamed(most) if self._fused is None else touched  # kernels keep to a cache by themselves
        self._by_rows(self._unpadded(function, most), arrays, touched, streamed, *more)

    def _by_rows(self, function, arrays, touched, streamed, *more):
        """Call ``function(*parts, *more)`` for the same rows of all ``arrays`` (agents, ...)."""
        for_chunks(lambda rows: function(*[array[rows] for array in arrays], *more), self.agents, touched, streamed=streamed)

    def _unpadded(self, function, count):
        """``function(x, d, c, *rest)`` without the samples of weight zero at an agent's end, where agents come one by one."""
        if self._fused is not None or not self._fills_cache(count):  # kernels see by themselves where samples end
            return function

        def of_one(x, d, c, *rest):
            used = c.shape[1] if c[0, -1] else c.shape[1] - int(np.argmax(c[0, ::-1] != 0))
            function(x[:, :used], d[:, :used], c[:, :used], *rest)

        return of_one

    def _fills_cache(self, count):
        """Whether so many samples are a chunk by themselves. Of the largest shard's, sums have the same bits on all engines."""
        return 2 * count * self._sample_bytes > self._together * CHUNK_BYTES

    def _linearized(self, x, d, c, w, out, scale=None, ridge=0.0):
        """Put the sum for agents with samples (x, d), weights c and parameters w into ``out``.

        The model's own way to the gradient is taken if it has one, else its linearization.
        """
        if self._fused is not None:
            self._fused(w, x, d, c, out, 1.0 if scale is None else scale, ridge)
            return
        if gradient := self._faster():
            gradient(w, x, d, c, out=out)
        else:
            # One product with the Jacobian is all that is asked for: of a model's own linearization no more is needed.
            at = getattr(self.model, "linearize", None) or functools.partial(linearize, self.model)
            outputs, linearization = at(w, x)
            slopes = self.loss.gradient(outputs, d)
            slopes *= c[:, :, None]
            linearization.vjp(slopes, out=out)
        if scale is not None:
            kernels.combined(out, w, np.array(scale, out.dtype), np.array(ridge, out.dtype), out=out)

    def _bytes(self, samples):
        """What a gradient on so many samples touches for one agent."""
        return samples * self._sample_bytes + self._agent_bytes

    def _streamed(self, samples):
        """How many of these bytes need not fit into a cache: an agent's own, and more where a model wants agents together."""
        if self._together == 1 or self._fills_cache(samples):
            return self._agent_bytes
        return max(self._agent_bytes, self._bytes(samples) - CHUNK_BYTES // self._together)
