"""The protocol of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float, Real


class Model(Protocol):
    """A function ``f(w, x)`` of parameters w and a sample's features x, for a block of agents at once.

    A model of one's own needs the two numbers and four methods below; :func:`consensus.testing.check_model` tries them.
    Shapes: w and tangents v (agents, P), x (agents, samples, features), outputs and cotangents u (agents, samples, outputs).
    A sample may have any shape: images come as x (agents, samples, channels, height, width) if data of that shape are given.

    What may be relied on, and what is expected:

    - Blocks have any number of agents and samples, one at least. A row of the result belongs to an agent, and depends on its
      row of the arguments alone; an agent's outputs for a sample depend on that sample's features alone.
    - Results are new arrays in the dtype of w, float64 or float32. Arguments are left as they are; some are read-only.
    - Agents with fewer samples are filled up with samples of zeros, which count with weight zero: f must be finite there.
    - Several threads may call a model at the same time, so that it keeps nothing from one call to the next. Worker processes
      get a copy of it, by cloudpickle. What such a copy holds are its settings: a run is resumed with a model of equal ones.

    Notes
    -----
    What a model may have besides, and who asks for it:

    ``features`` : int, or tuple of int
        How many features a sample has, or the shape of a sample: other data are refused.
    ``for_samples(shape)``
        The model for samples of that shape, a tuple, where ``features`` and ``outputs`` are known no sooner: problems take
        that in its place. With ``takes_integers = True`` it is ``for_samples(shape, dtype)`` for features in int32 and int64,
        and returns a model whose ``whole`` says whether they stay so; other models get float64.
    ``for_sparse()``
        The model for sparse features, which multiplies x (agents, samples, features) by arrays as ``x @ W`` and
        ``x.swapaxes(1, 2) @ u``, and has no ``jacobian`` and ``gram``. Without it they are refused.
    ``widths`` : sequence of int
        How many numbers a sample takes on its way, ``[features, ..., outputs]``. Blocks are cut so that they fit into a core's
        cache, and so that test sets fit into memory; the cheapest way to solve local problems is estimated by it.
    ``agents_per_call`` : int
        How many agents with little to do one call should have, at least: where so many take much less than each by itself.
    ``little`` : int
        How many bytes such an agent touches at most, in a pass there and back; by default ``agents_per_call`` times those of a
        cache.
    ``worth_a_thread(samples)``
        Whether agents with so many samples are shared out among threads; by default they are, if they are enough together.
    ``output_shape`` : tuple of int
        The shape of a sample's outputs, as (tokens, classes), whose product is ``outputs``: targets then have a column for each
        token, or for each output.
    ``samples_at_once(dtype)``
        How many samples of an agent fit into one pass there and back; sums over more are added up from several passes. By
        default that is estimated by ``widths``, and :class:`consensus.Problem` has ``micro_batch`` for it.
    ``layout`` : sequence of :class:`consensus.models.NamedArray`
        Names, places and shapes of the arrays that the parameter vector holds: for :class:`consensus.directions.Muon`, which
        treats the weights of a layer as a matrix, and :meth:`consensus.L2.by_name`.
    ``jacobian_is_constant`` : bool
        Whether f is linear in w: local solvers then keep their factors from round to round.
    ``jacobian(w, x)``
        J (agents, samples * outputs, P), the outputs of a sample neighbouring rows. By default it is made by one call of
        ``vjp``, in which every output of every sample stands for an agent.
    ``stochastic`` : bool
        Whether f draws random numbers in training, as dropout does. The methods above then leave them out, and the model has
        ``drawn(agent, draw)``: the same model with the random numbers of an agent of the network in a draw, the same ones in
        every call. Gradients of batches are its; costs, metrics and gradients of all samples are without random numbers.
    ``differs``, ``apart`` : bool
        Whether f is another function in training, by such numbers or otherwise, and whether it may be one: gradients of batches
        then are those of ``drawn``. Solvers that need one function refuse a model that differs.
    ``buffers`` : {"average", "keep"} or None
        If the model normalises batches, as batch normalisation does in training: whether points are evaluated by the statistics
        of all agents' samples or of each agent's own; None if not. It then has ``buffer_size`` and ``least``, how many numbers
        the statistics are and how many samples a batch needs; ``drawn``, for batches; ``normalised()``, the model in evaluation
        mode but for its normalisation by the samples of a call, for all samples; ``statistics(w, x)`` of a call; and
        ``evaluated(buffers)``, the model by given ones. Each call has the samples of one agent, without padding.
    ``gradient_of(loss)``
        A faster way to the gradient with this loss, ``gradient(w, x, targets, weights, out=)``: it writes
        ``sum_m weights_m J_m' l'(f(w, x_m), d_m)`` of each agent into ``out`` (agents, P). None if there is none. If it is a
        ``FusedSums`` of the compiled kernels, as that of :class:`consensus.Linear`, it also serves values and regularizers.
    ``design(x)``
        The design matrices Phi (agents, samples, m) of a model ``f(w, x) = Phi(x) W``, w the rows of W (m, outputs): Lipschitz
        constants then are exact, by their singular values.
    ``gram(w, x)``
        J J' (agents, samples * outputs, samples * outputs), where that takes less than J: for local problems with more
        parameters than samples.
    ``exact`` : Model
        If ``vjp`` returns other directions than J' u, as :class:`consensus.models.DirectFeedback` does: the model of the same f
        that returns J' u. Stationarity is measured by it, and solvers that compare costs along a step or take Jacobians refuse
        the model.
    ``linearize(w, x)``
        ``(f(w, x), linearization)``, a :class:`Linearization`, so that one pass through the model serves all products with J at
        w: gradients take one, local solvers and :class:`consensus.solvers.AdaptiveNEXT` many.

    Examples
    --------
    The exponential of a linear function:

    >>> import numpy as np
    >>> class Exponential:
    ...     parameters, outputs = 3, 1
    ...     def init(self, rng):
    ...         return 0.1 * rng.standard_normal(3)
    ...     def predict(self, w, x):
    ...         return np.exp(x @ w[:, :, None])
    ...     def jvp(self, w, x, v):
    ...         return self.predict(w, x) * (x @ v[:, :, None])
    ...     def vjp(self, w, x, u):
    ...         return (x.swapaxes(1, 2) @ (u * self.predict(w, x)))[:, :, 0]
    >>> import consensus
    >>> report = consensus.testing.check_model(Exponential(), features=3)
    """

    @property
    def parameters(self) -> int:
        """Number of parameters, P."""

    @property
    def outputs(self) -> int:
        """Number of outputs for a sample."""

    def init(self, rng: np.random.Generator) -> Float[np.ndarray, " P"]:
        """Return a random start, drawn from ``rng`` alone.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        ndarray (P,)
            Parameters.
        """

    def predict(
        self, w: Float[np.ndarray, "agents P"], x: Real[np.ndarray, "agents samples *features"]
    ) -> Float[np.ndarray, "agents samples outputs"]:
        """Return the outputs f(w, x).

        Parameters
        ----------
        w : ndarray (agents, P)
            Parameters.
        x : ndarray (agents, samples, features)
            Features.

        Returns
        -------
        ndarray (agents, samples, outputs)
            Outputs.
        """

    def vjp(
        self,
        w: Float[np.ndarray, "agents P"],
        x: Real[np.ndarray, "agents samples *features"],
        u: Float[np.ndarray, "agents samples outputs"],
    ) -> Float[np.ndarray, "agents P"]:
        """Return J' u, with the Jacobian J of f in w.

        Parameters
        ----------
        w, x : ndarray
            As in `predict`.
        u : ndarray (agents, samples, outputs)
            Cotangents.

        Returns
        -------
        ndarray (agents, P)
            The product of each agent.
        """

    def jvp(
        self,
        w: Float[np.ndarray, "agents P"],
        x: Real[np.ndarray, "agents samples *features"],
        v: Float[np.ndarray, "agents P"],
    ) -> Float[np.ndarray, "agents samples outputs"]:
        """Return J v.

        Parameters
        ----------
        w, x : ndarray
            As in `predict`.
        v : ndarray (agents, P)
            Tangents.

        Returns
        -------
        ndarray (agents, samples, outputs)
            The product of each agent.
        """
