"""Model parallelism: one residual network, its layers spread over worker processes that work at the same time."""

import hashlib
import itertools
import multiprocessing
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any, ClassVar, NamedTuple

import numpy as np

from consensus import _checks
from consensus.costs import Load
from consensus.errors import WorkerError
from consensus.model_parallel.slab import Done, Slab, SlabWork
from consensus.model_parallel.workers import OnWorkers, PassMemory, Team
from consensus.models import ResNet


class Residuals(NamedTuple):
    """Norms of the residuals of a pass, before each iteration and after the last one; (iterations + 1,) each."""

    forward: np.ndarray
    adjoint: np.ndarray


class LayerParallel(OnWorkers[ResNet]):
    """A residual network whose passes run on worker processes, each with a slab of layers, by multigrid reduction in time.

    The states of all layers solve ``u_k = u_{k-1} + h s(u_{k-1} W_k + b_k)``, their cotangents the transposed linear system.
    All slabs improve their states at the same time, by V-cycles of the full approximation scheme with F-, C- and F-relaxation.
    On each level a layer stands for ``coarsening`` layers of the level before. A gradient takes ``iterations`` V-cycles
    forward, then as many backward. In a V-cycle each slab sends the next one a message for each level: the states of all
    samples at one layer.

    With two levels, states and then gradients are exact, to rounding, after ``layers / (2 coarsening)`` iterations. With fewer
    iterations the error of a gradient is bounded by the residuals. The next pass for the same samples starts from the states
    that the slabs have, so that training finds parameters and states simultaneously; a pass for other samples starts from a
    march through the coarsest level.

    The model takes the place of a :class:`consensus.models.ResNet`. The workers compute outputs and gradients of training
    steps, with the same bits for any number of workers and given levels. ``predict``, which evaluates objectives and errors,
    and the other products (``jvp``, ``jacobian``, ``gram``) are the network's own: exact, in this process. Workers start when
    they are first needed. They end with :meth:`close`, with a ``with`` block, or with the model. Pickled, as for worker
    processes of an engine, the model is the network. The slabs' states are not in checkpoints: a resumed run starts from the
    coarsest level again, and differs by as much as gradients are inexact.

    Parameters
    ----------
    model : ResNet
        The network.
    workers : int
        Processes, each with as many layers.
    coarsening : int
        >= 2; the layers for which one of the next level stands.
    levels : int, optional
        >= 2; ``workers * coarsening ** (levels - 1)`` must divide the layers. By default as many as that allows.
    iterations : int
        V-cycles of a pass.

    Attributes
    ----------
    residuals : Residuals
        Residuals of the last gradient, in the Frobenius norm over samples and layers.
    crossed_bytes, crossed_messages : int
        Bytes and messages that slabs have sent one another so far.

    Raises
    ------
    WorkerError
        If a worker dies; the next call starts new ones.

    References
    ----------
    Günther, Ruthotto, Schroder, Cyr, Gauger, "Layer-parallel training of deep residual neural networks", SIAM Journal on
    Mathematics of Data Science, 2020. Falgout, Friedhoff, Kolev, MacLachlan, Schroder, "Parallel time integration with
    multigrid", SIAM Journal on Scientific Computing, 2014.

    Examples
    --------
    >>> from consensus.centralized import LayerParallel
    >>> from consensus.models import ResNet
    >>> model = LayerParallel(ResNet(13, width=8, layers=64, outputs=1), workers=2)
    >>> model.levels, model.parameters
    (3, 4729)
    """

    most: ClassVar[int] = 1024  # each slab has the states of all its layers for so many samples

    def __init__(
        self, model: ResNet, workers: int, coarsening: int = 4, levels: int | None = None, iterations: int = 2
    ) -> None:
        if not isinstance(model, ResNet):
            shown = _checks.shown(model)
            raise TypeError(f"model must be a ResNet, such as consensus.models.ResNet(13, 8, 64, 1); got {shown}")
        self.coarsening = _checks.count("coarsening", coarsening, least=2)
        self.iterations = _checks.count("iterations", iterations)
        self._prepare(model, _checks.count("workers", workers))
        least = self.workers * self.coarsening
        if levels is None:
            levels = 2
            while model.layers % (least * self.coarsening ** (levels - 1)) == 0:
                levels += 1
        self.levels = _checks.count("levels", levels, least=2)
        unit = self.workers * self.coarsening ** (self.levels - 1)
        if model.layers % unit:
            raise ValueError(
                f"the model's layers must be a multiple of workers * coarsening ** (levels - 1) = {unit}, so that each of "
                f"{self.workers} workers has as many on all {self.levels} levels; got {model.layers}"
            )
        self.parameters, self.features, self.outputs = model.parameters, model.features, model.outputs
        self.widths, self.layout, self.init, self.predict = model.widths, model.layout, model.init, model.predict
        self.jvp, self.jacobian, self.gram = model.jvp, model.jacobian, model.gram
        self.residuals = Residuals(np.zeros(0), np.zeros(0))

    def __repr__(self) -> str:
        return (
            f"LayerParallel({self.plain}, workers={self.workers}, coarsening={self.coarsening}, levels={self.levels}, "
            f"iterations={self.iterations})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self.plain,)

    def gradient(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return J' u, by ``iterations`` V-cycles forward and as many backward.

        Parameters
        ----------
        w : ndarray (agents, P)
            Parameters.
        x : ndarray (agents, samples, features)
            Features.
        u : ndarray (agents, samples, outputs)
            Cotangents.

        Returns
        -------
        ndarray (agents, P)
            The product of each agent.
        """
        return self.linearize(w, x)[1].vjp(u)

    vjp = gradient

    def load(self, samples: int, itemsize: int = 8, cold: bool = False) -> Load:
        """Return the chain of work that a gradient waits for, to be priced by :meth:`consensus.costs.Cluster.seconds`.

        A step through a layer takes ``2 samples width^2`` operations, as does the gradient of one. The opening layer and the
        head are left out.

        Parameters
        ----------
        samples : int
            At most :attr:`most`, as many as pass at a time.
        itemsize : int
            Bytes of a number.
        cold : bool
            Whether these samples are new to the slabs, so that they march through the coarsest level first.

        Returns
        -------
        consensus.costs.Load
            Messages that are sent one after another, their bytes, and operations; with one entry each.
        """
        _checks.count("samples", samples, most=self.most)
        sizes = self.plain.layers, self.plain.width, self.workers, self.coarsening, self.levels, self.iterations
        return SlabWork(*sizes, samples).load(_checks.count("itemsize", itemsize), _checks.flag("cold", cold))

    def _begun(self, dtype: np.dtype, stack: ExitStack) -> tuple[Sequence[Slab], PassMemory, str]:
        memory = PassMemory.of(self.parameters, self.plain.features, self.outputs, self.most, dtype)
        pipes: list[tuple[Connection | None, Connection | None]] = [(None, None)]
        for _ in range(self.workers - 1):
            ends = multiprocessing.Pipe()
            for end in ends:
                stack.callback(end.close)  # so that a slab sees that its neighbour has ended
            pipes += [ends]
        pipes.append((None, None))
        shape = self.coarsening, self.levels
        return (
            [
                Slab(self.plain, memory, number, self.workers, *shape, before[1], after[0])
                for number, (before, after) in enumerate(itertools.pairwise(pipes))
            ],
            memory,
            "slab",
        )

    def _up(self, w: np.ndarray, x: np.ndarray, team: Team) -> np.ndarray:
        team.memory.w.array[...] = w
        team.memory.x.array[: len(x)] = x
        self._key = hashlib.blake2b(x.tobytes(), digest_size=16).digest() + bytes(str(x.shape), "ascii")
        self._samples = len(x)
        forward = self._passed(team, "forward", self._key, len(x), self.iterations, self._together)
        self.residuals = Residuals(forward, np.zeros(0))
        outputs: np.ndarray = team.memory.outputs.array[: len(x)]
        return outputs

    def _down(self, u: np.ndarray, team: Team) -> np.ndarray:
        team.memory.u.array[: len(u)] = u
        adjoint = self._passed(team, "backward", self._key, len(u), self.iterations)
        self.residuals = self.residuals._replace(adjoint=adjoint)
        gradient: np.ndarray = team.memory.gradient.array
        return gradient

    def _passed(self, team: Team, *request: object) -> np.ndarray:
        """Return the norms of the residuals of a pass."""
        answers: list[Done | None] = self._all(team, *request)
        done = [answer for answer in answers if answer is not None]
        if len(done) < len(answers):
            self.close()
            raise WorkerError(f"slab {answers.index(None)} lost the pipe to its neighbour, which still runs")
        self.crossed_messages += sum(answer.messages for answer in done)
        self.crossed_bytes += sum(answer.numbers for answer in done) * team.dtype.itemsize
        norms: np.ndarray = np.sqrt(np.sum([answer.squares for answer in done], axis=0))
        return norms


def _itself(model: ResNet) -> ResNet:
    return model
