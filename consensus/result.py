"""Results of runs."""

import os
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from consensus import _checks
from consensus.checkpoints import storage
from consensus.checkpoints.best import Best, packed, unpacked
from consensus.history import History
from consensus.models import Model
from consensus.observe.measure import agents_mean
from topologies import _names

_FORMAT = "result 1"


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a run.

    Parameters
    ----------
    w : ndarray (agents, P)
        Every agent's copy of the parameters.
    history : History
        The record of the run.
    rounds : int
        Rounds done.
    reason : str
        Why the run stopped.
    solver : Solver, System or None
        The solver as it ran: its ``repr`` shows the step size it was given, or found. In a result from a file, that text.
    honest : ndarray of int, optional
        The rows of ``w`` that the history measured, if other agents are Byzantine; None if all.
    best : Best, optional
        With ``solve(..., keep=column)`` the point at which the column was least: its ``mean`` (P,), ``round`` and ``value``.
    model : Model, optional
        The model of the problem, if it has one. Files of results do not have it.
    personal : bool
        Whether agents have models, or parts of models, of their own: the rows of ``w``.
    labels : tuple, optional
        The names of the agents, one for each row of ``w``, if the problem or the network has some.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import EXTRA
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1, lipschitz=2.0)
    >>> result = consensus.solve(problem, topologies.ring(5), EXTRA(), rounds=300)
    >>> result.reason, result.w.shape, result.mean.round(6).tolist(), result.history["objective"][[0, -1]].round(6).tolist()
    ('all 300 rounds done', (5, 1), [2.0], [27.564436, 10.0])
    """

    w: np.ndarray
    history: History
    rounds: int
    reason: str
    solver: Any = None
    honest: np.ndarray | None = None
    best: Best | None = None
    model: Model | None = field(default=None, repr=False)
    personal: bool = False
    labels: tuple[Hashable, ...] | None = None

    @property
    def mean(self) -> np.ndarray:
        """The agents' mean, shape (P,); that of the honest ones if others are Byzantine. No model if agents have their own."""
        if self.honest is None:
            return agents_mean(self.w)
        if not len(self.honest):
            raise ValueError("all agents whose rows are here are Byzantine: the mean is known on processes with honest agents")
        return agents_mean(self.w[self.honest])

    def __repr__(self) -> str:
        return f"Result({self.reason}; w {self.w.shape}, {self.history})"

    def predictor(self, pipeline: Any, model: Model | None = None, agent: int | str | None = None) -> Any:  # noqa: ANN401
        """Return the trained model with what turns tables into its inputs; ``predictor.save(path)`` writes one file of both.

        Its parameters are those of ``best`` if the run kept a best point, otherwise the ``mean``, which after
        ``solve(..., gather=False)`` on ranks is that of this rank's agents alone. If agents have models of their own, they are
        those of one ``agent``.

        Parameters
        ----------
        pipeline : Pipeline
            As :func:`consensus.data.own` returns it, or ``consensus.datasets.split(...).pipeline``.
        model : Model, optional
            The model, by default that of the run. A result from a file needs it.
        agent : int or str, optional
            A row of ``w``, or as text an agent's name, if agents have models of their own. After ``solve(..., gather=False)``
            these are the rank's agents.

        Returns
        -------
        Predictor
            The predictor.

        Raises
        ------
        TypeError, ValueError
            If there is no model, or it does not fit the pipeline. If an ``agent`` is needed, and there is none, or the
            other way round.

        Examples
        --------
        >>> import consensus, topologies
        >>> parts = consensus.datasets.split(*consensus.datasets.load("diabetes"))
        >>> problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), consensus.partition(parts.X, parts.y, 4))
        >>> predictor = consensus.solve(problem, topologies.ring(4), rounds=50).predictor(parts.pipeline)
        >>> predictor.predict(consensus.datasets.load("diabetes").X).shape
        (442,)
        """
        from consensus.owners.predictor import Predictor

        model = self.model if model is None else model
        if model is None:
            raise TypeError("model must be given, because a result of costs by functions, or from a file, has none")
        if not self.personal:
            if agent is not None:
                raise ValueError(f"agent must be left out: the agents look for one model; got {_checks.shown(agent)}")
            return Predictor(model, self.mean if self.best is None else self.best.mean, pipeline)
        rows = self.w if self.best is None or self.best.w is None else self.best.w
        if agent is None:
            raise ValueError(f"agent must be given, 0 to {len(rows) - 1}: each has a model of its own")
        agent = cast(int, _names.places("agent", [agent], self.labels)[0])
        return Predictor(model, rows[_checks.count("agent", agent, least=0, most=len(rows) - 1)], pipeline)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a file, for :func:`consensus.load`: NumPy's npz, without pickle, with a checksum.

        The file is written as a whole: whenever the machine stops, there is the one from before or the new one.

        Parameters
        ----------
        path : path
            Such as ``"run.npz"``; nothing is appended to it.

        Examples
        --------
        >>> import tempfile, pathlib, consensus, topologies
        >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
        >>> result = consensus.solve(problem, topologies.ring(3), rounds=5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result.save(pathlib.Path(folder, "run.npz"))
        ...     again = consensus.load(pathlib.Path(folder, "run.npz"))
        >>> bool((again.w == result.w).all()), again.reason, again.solver
        (True, 'all 5 rounds done', "Auto(AdaptiveNEXT(), why='exchanges across the network: 1 <= 5')")
        """
        solver = None if self.solver is None else str(self.solver)
        about = {"format": _FORMAT, "rounds": self.rounds, "reason": self.reason, "solver": solver}
        about |= {"personal": True} if self.personal else {}
        about |= {} if self.labels is None else {"labels": _names.plain(self.labels)}
        honest = {} if self.honest is None else {"honest": self.honest}
        kept, point = packed(self.best)
        arrays = {"w": self.w, **honest, **point, **{f"history.{name}": self.history[name] for name in self.history}}
        file = _checks.path("path", path)
        if not file.name:
            raise ValueError(f"path must be that of a file; got {path!r}")
        storage.write(file, arrays, about | kept)


def load(path: str | os.PathLike[str], model: Model | None = None) -> Any:  # noqa: ANN401  # a Result or a Predictor
    """Read a result that :meth:`Result.save` wrote, or a predictor that :meth:`Predictor.save` wrote.

    Parameters
    ----------
    path : path
        The file.
    model : Model, optional
        For a predictor of a model whose code no file has, such as one of PyTorch: the model.

    Returns
    -------
    Result or Predictor
        A result has the solver's text as its ``solver``.

    Raises
    ------
    FileNotFoundError
    ValueError
        If the file is neither, such as a checkpoint (of which ``solve(..., resume=path)`` goes on), has a format of another
        version, which is named, or is damaged. If ``model`` is another one than was saved.
    TypeError
        If a predictor needs a ``model``, which is named, or a result is given one.

    Examples
    --------
    >>> import pathlib, tempfile, consensus, topologies
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> result = consensus.solve(problem, topologies.ring(3), consensus.solvers.DGD(0.1), rounds=5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(pathlib.Path(folder, "run.npz"))
    ...     again = consensus.load(pathlib.Path(folder, "run.npz"))
    >>> again.rounds, again.solver, bool((again.w == result.w).all())
    (5, 'DGD(step_size=0.1, batch=None)', True)
    """
    path = _checks.path("path", path)
    found = storage.about(path, "result")["format"]
    if isinstance(found, str) and found.startswith("predictor"):
        from consensus.owners import predictor, predictor_file

        return predictor.Predictor(*predictor_file.read(path, model))
    arrays, about = storage.read(path, "result", _FORMAT)
    if model is not None:
        raise TypeError(f"model goes with a predictor; {path} is a result: result.predictor(pipeline, model)")
    with storage.understood(path, "result"):
        honest, best, labels = arrays.get("honest"), unpacked(arrays, about), about.get("labels")
        measured = labels if labels is None or honest is None else [labels[agent] for agent in honest.tolist()]
        history = storage.history_of(storage.part(arrays, "history."), None if measured is None else tuple(measured))
        settings = about["rounds"], about["reason"], about["solver"]
        about = {"personal": about.get("personal", False), "labels": None if labels is None else tuple(labels)}
        return Result(arrays["w"], history, *settings, honest, best, **about)
