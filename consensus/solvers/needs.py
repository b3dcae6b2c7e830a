"""Requirements of a solver on a problem and a network, as data."""

from dataclasses import dataclass, fields
from typing import Literal, get_args

from consensus import _checks

Regularizers = Literal["none", "smooth", "prox", "prox_jvp"]
Matrices = Literal["symmetric", "doubly stochastic", "column stochastic", "row stochastic"]

_DIRECTED = {"doubly stochastic": "sinkhorn", "column stochastic": "push", "row stochastic": "pull"}


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Requirements of a solver on a problem and a network: the attribute ``needs`` of its class.

    :func:`consensus.solvers.check_needs`, which :func:`consensus.solve` calls before any work, refuses what the method cannot
    run on: a ``regularizer``, a missing ``model`` or method of the ``loss``, ``mixing`` matrices. A violated assumption of the
    convergence theory (``convex``, ``static``, and the conditions that :func:`topologies.check` measures) is a warning.

    Parameters
    ----------
    regularizer : {"prox", "smooth", "prox_jvp", "none"}
        What the method takes of r: its prox, which every regularizer has; its gradient, so that r must be smooth; the
        generalised Jacobian of its prox, too, unless r is quadratic; nothing, so that r must be zero.
    convex : bool
        Whether its theory is of convex costs and regularizers.
    model : bool
        Whether the model is linearised, so that costs given by functions are refused.
    loss : tuple of str
        Attributes and methods of the loss, if there is one, beside ``value``, ``gradient`` and ``check``.
    mixing : {"doubly stochastic", "column stochastic", "row stochastic", "symmetric"}
        What every round's mixing matrix must be; the symmetric ones are doubly stochastic, too.
    static : bool
        Whether its theory is of one matrix for all rounds.
    counts_exchanges : bool
        Whether the method finds the number of exchanges of a round by itself: :class:`consensus.solvers.Gossip` refuses it.
    tree : bool
        Whether it sums over all agents along a tree, ``network.tree``: refused on networks that change, are directed
        or not connected, and inside wrappers, which change what ``network.mix`` does.
    each_message : bool
        Whether it takes its neighbours' messages one by one, by ``network.aggregate``: wrappers that change ``network.mix``, as
        Gossip does, refuse it.
    deterministic : bool
        Whether the costs must be one function throughout, because the method searches along a step or combines gradients of all
        samples with those of batches: models with dropout or batch normalisation are refused, as they are where a ``model`` is
        linearised.
    exact : bool
        Whether gradients must be the costs' own, because the method compares costs along a step or takes the model's Jacobian:
        models with directions in their place, as :class:`consensus.models.DirectFeedback`, are refused.
    wakes : bool
        Whether its agents wake one by one, without rounds: an engine of :mod:`consensus.asynchronous` runs it, and no other.
    coupled : bool
        Whether the problem must be a :class:`consensus.problems.Coupled`, whose agents have variables of their own.
    own_models : bool
        Whether agents have models of their own, with the weights of ``network.mix`` in their objective: wrappers that change
        ``network.mix`` refuse it.

    own_regularizers : bool
        Whether each agent may have a regularizer or a set of its own, ``regularizer=[...]`` of a problem, of which the method
        takes the prox.

    Raises
    ------
    ValueError
        If a value is none of those.

    Examples
    --------
    >>> from consensus.solvers import Needs
    >>> Needs(regularizer="smooth", mixing="column stochastic").directed
    'push'
    """

    regularizer: Regularizers = "prox"
    convex: bool = False
    model: bool = False
    loss: tuple[str, ...] = ()
    mixing: Matrices = "doubly stochastic"
    static: bool = False
    counts_exchanges: bool = False
    tree: bool = False
    each_message: bool = False
    deterministic: bool = False
    exact: bool = False
    wakes: bool = False
    coupled: bool = False
    own_models: bool = False
    own_regularizers: bool = False

    def __post_init__(self) -> None:
        _checks.choice("regularizer of Needs", self.regularizer, get_args(Regularizers))
        _checks.choice("mixing of Needs", self.mixing, get_args(Matrices))
        for setting in fields(self):
            if setting.type is bool:
                _checks.flag(f"{setting.name} of Needs", getattr(self, setting.name))
        if not isinstance(self.loss, tuple) or not all(isinstance(name, str) for name in self.loss):
            raise TypeError(f"loss of Needs must be a tuple of attributes' names; got {_checks.shown(self.loss)}")

    @property
    def directed(self) -> str | None:
        """The weights of :mod:`topologies` by which the method runs on directed graphs; None where there are none."""
        return None if self.tree else _DIRECTED.get(self.mixing)


def needs_of(solver: object) -> Needs:
    """Return the attribute ``needs`` of a solver or its class, or ``Needs()`` if it has none."""
    return getattr(solver, "needs", None) or Needs()
