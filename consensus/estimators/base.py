"""The base of the estimators."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from consensus import _checks
from consensus.data import Columns, Pipeline, partition
from consensus.data.owners import numbered
from consensus.data.partitions import SCHEMES
from consensus.estimators import networks
from consensus.estimators.coordinates import Coordinates
from consensus.estimators.shared_docs import ATTRIBUTES, PARAMETERS
from consensus.estimators.validation import validated
from consensus.losses.base import Loss
from consensus.models import MLP, Linear
from consensus.owners.predictor import Predictor
from consensus.problems import Problem
from consensus.solve import solve
from consensus.solvers import Solver
from topologies.schedules import ScheduleLike

_SEEDS = np.iinfo(np.int32).max
_LINEAR, _LEAST = 1e-4, 1e-10  # factor of tol for linear models, whose optimum is worth more rounds, and its least value


class NetworkEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A model that agents train over a network; see :class:`NetworkRegressor` and :class:`NetworkClassifier`."""

    def __init_subclass__(cls, **options: object) -> None:
        """Insert the shared parameters and attributes into the docstring."""
        super().__init_subclass__(**options)
        if cls.__doc__:
            cls.__doc__ = cls.__doc__.replace("%(parameters)s", PARAMETERS).replace("%(attributes)s", ATTRIBUTES)

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (20,),
        alpha: float = 1e-3,
        l1_ratio: float = 0.0,
        agents: int = 10,
        network: str | nx.Graph | ScheduleLike = "erdos_renyi",
        solver: Solver | None = None,
        scheme: str = "iid",
        max_iter: int = 100,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.agents = agents
        self.network = network
        self.solver = solver
        self.scheme = scheme
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Let the agents train on ``X`` and ``y``.

        Parameters
        ----------
        X : array_like or DataFrame (samples, features)
            Columns of pandas' ``category`` dtype become a feature for every category.
        y : array_like (samples,), or (samples, outputs) for regression
            Targets; for classification numbers or text.
        groups : array_like (samples,), optional
            Owner of each row: one agent per group. ``agents`` and ``scheme`` are then ignored.
        sample_weight : array_like (samples,), optional
            Weight of each row in the mean loss and in standardisation, at least 0; rows of weight 0 belong to no agent.

        Returns
        -------
        NetworkEstimator
            Itself.
        """
        self._fit(X, y, groups, sample_weight)
        return self

    def _fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        raise NotImplementedError

    def _train(
        self,
        X: np.ndarray,
        y: np.ndarray,
        loss: Loss,
        outputs: int,
        groups: ArrayLike | None,
        coordinates: Coordinates,
        weights: np.ndarray | None,
    ) -> None:
        """Train on features X in original units and targets y (samples, columns) in the agents' units, or classes.

        ``weights`` (samples,) are above 0.
        """
        hidden = _checks.shape("hidden_layer_sizes", self.hidden_layer_sizes) if np.size(self.hidden_layer_sizes) else ()
        alpha = _checks.number("alpha", self.alpha, least=0)
        l1_ratio = _checks.number("l1_ratio", self.l1_ratio, least=0, most=1)
        rounds, tol = _checks.count("max_iter", self.max_iter), _checks.number("tol", self.tol, least=0)
        agents = self._agents(len(X), groups)
        try:
            generator = check_random_state(self.random_state)
        except ValueError as error:
            wanted = "None, a whole number from 0 to 2**32 - 1, or a numpy.random.RandomState"
            raise ValueError(f"random_state must be {wanted}; got {_checks.shown(self.random_state)}") from error
        of_partition, of_network, of_start = generator.randint(_SEEDS, size=3).tolist()

        scheme: Any = _checks.choice("scheme", self.scheme, [name for name in SCHEMES if name != "sizes"])
        inputs = (X - coordinates.mean) / coordinates.scale
        if groups is None:
            shards = partition(inputs, y, agents, scheme, of_partition, sample_weight=weights)
        else:
            shards = partition(inputs, y, agents, groups=groups, sample_weight=weights)
        model = MLP([X.shape[1], *hidden, outputs]) if hidden else Linear(X.shape[1], outputs)
        problem = Problem(model, loss, shards, coordinates.penalty(model, alpha, l1_ratio))
        network = networks.schedule(self.network, agents, of_network)
        tolerance = tol if hidden else min(tol, max(_LINEAR * tol, _LEAST))
        options: dict[str, Any] = {"tolerance": tolerance or None, "seed": of_start, "progress": bool(self.verbose)}
        if self.solver is not None and hasattr(self.solver, "personal") and self.solver.personal(problem) is not None:
            raise TypeError(f"solver must look for one model; with {self.solver} each agent has its own: use consensus.solve")
        result = solve(problem, network, self.solver, rounds=rounds, **options)

        reached = max(result.history[name][-1] for name in ("stationarity", "disagreement"))
        if tol and reached > tol:
            words = f"the agents did not get to tol={tol:g}, but to {reached:.3g}: raise max_iter, now {rounds}"
            warnings.warn(words, ConvergenceWarning, stacklevel=4)
        self.model_, self.parameters_ = model, coordinates.original(model, result.mean)
        self.history_, self.network_, self.agents_, self.n_iter_ = result.history, network, agents, result.rounds
        if not hidden:
            ((weights, biases),) = model._split(self.parameters_)
            self.coef_, self.intercept_ = weights.T, biases[0]  # views: changes of them change the model

    def predictor(self) -> Predictor:
        """Return what was fitted as a predictor, which ``save`` writes to one file for :func:`consensus.load`.

        Returns
        -------
        Predictor
            Its predictions are those of the estimator, of data frames with the columns of the fit or of arrays.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before ``fit``.
        """
        check_is_fitted(self)
        columns = self.columns_
        if columns is None and hasattr(self, "feature_names_in_"):
            columns = Columns(tuple(map(str, self.feature_names_in_)), {})
        features = len(columns.features) if columns is not None else self.n_features_in_
        classes = tuple(self.classes_.tolist()) if hasattr(self, "classes_") else None
        pipeline = Pipeline(columns, np.zeros(features), np.ones(features), classes=classes)
        return Predictor(self.model_, self.parameters_, pipeline)

    def _agents(self, samples: int, groups: ArrayLike | None) -> int:
        """Return the number of agents; raise ``ValueError`` if some would have no samples."""
        agents = networks.size(self.network, _checks.count("agents", self.agents))
        if groups is not None:
            owners = len(numbered(groups, samples)[0])
            if not isinstance(self.network, str) and agents != owners:
                raise ValueError(f"groups must be as many as the network has agents, {agents}; got {owners}")
            return owners
        if agents > samples:
            raise ValueError(f"agents must be at most the number of samples; got {agents} agents and n_samples = {samples}")
        return agents

    def _outputs(self, X: ArrayLike) -> np.ndarray:
        """Return the model's outputs (samples, outputs) at the agents' mean."""
        check_is_fitted(self)
        (features,) = validated(self, X, reset=False)
        outputs: np.ndarray = self.model_.predict(self.parameters_, features)
        return outputs
