"""What the estimators share."""

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
from consensus.data import Columns, partition
from consensus.data.frames import is_category, is_frame
from consensus.data.owners import numbered
from consensus.data.partitions import SCHEMES
from consensus.estimators import networks
from consensus.estimators.coordinates import Coordinates
from consensus.losses.base import Loss
from consensus.models import MLP, Linear
from consensus.problems import Problem
from consensus.solve import solve
from consensus.solvers import Solver
from topologies.schedules import ScheduleLike

_SEEDS = np.iinfo(np.int32).max
_MORE, _ENOUGH = 1e-4, 1e-10  # of tol, for linear models: their optimum is worth some rounds more; but rounding is near


class NetworkEstimator(BaseEstimator):
    """A model that agents train over a network; see :class:`NetworkRegressor` and :class:`NetworkClassifier`."""

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

    def _train(self, X: np.ndarray, y: np.ndarray, loss: Loss, outputs: int, groups: ArrayLike | None, to: Coordinates) -> Self:
        """Fit features and targets (samples, columns) in original units; ``to`` are the coordinates of the agents."""
        hidden = _checks.shape("hidden_layer_sizes", self.hidden_layer_sizes) if np.size(self.hidden_layer_sizes) else ()
        widths = [X.shape[1], *hidden, outputs]
        alpha = _checks.number("alpha", self.alpha, least=0)
        l1_ratio = _checks.number("l1_ratio", self.l1_ratio, least=0, most=1)
        rounds, tol = _checks.count("max_iter", self.max_iter), _checks.number("tol", self.tol, least=0)
        agents = self._agents(len(X), groups)
        try:
            generator = check_random_state(self.random_state)
        except ValueError as error:
            wanted = "None, a whole number from 0 to 2**32 - 1, or a numpy.random.RandomState"
            raise ValueError(f"random_state must be {wanted}; got {_checks.shown(self.random_state)}") from error
        of_parts, of_network, of_start = generator.randint(_SEEDS, size=3).tolist()

        scheme: Any = _checks.choice("scheme", self.scheme, [name for name in SCHEMES if name != "sizes"])
        inputs = (X - to.mean) / to.scale
        if groups is None:
            shards = partition(inputs, y, agents, scheme, of_parts)
        else:
            shards = partition(inputs, y, agents, groups=groups)
        model = MLP(widths) if hidden else Linear(X.shape[1], outputs)
        problem = Problem(model, loss, shards, to.penalty(model, alpha, l1_ratio))
        network = networks.schedule(self.network, agents, of_network)
        tolerance = tol if hidden else min(tol, max(_MORE * tol, _ENOUGH))
        options: dict[str, Any] = {"tolerance": tolerance or None, "seed": of_start, "progress": bool(self.verbose)}
        result = solve(problem, network, self.solver, rounds=rounds, **options)

        left = max(result.history[name][-1] for name in ("stationarity", "disagreement"))
        if tol and left > tol:
            words = f"the agents did not get to tol={tol:g}, but to {left:.3g}: raise max_iter, now {rounds}"
            warnings.warn(words, ConvergenceWarning, stacklevel=3)
        self.model_, self.parameters_ = model, to.original(model, result.mean)
        self.history_, self.network_, self.agents_, self.n_iter_ = result.history, network, agents, result.rounds
        if not hidden:
            ((weights, biases),) = model._split(self.parameters_)
            self.coef_, self.intercept_ = weights.T, biases[0]  # views: what is done to them is done to the model
        return self

    def _agents(self, samples, groups):
        """How many agents there are; raise ``ValueError`` where some would have no samples."""
        agents = networks.size(self.network, _checks.count("agents", self.agents))
        if groups is not None:
            owners, _ = numbered(groups, samples)
            if not isinstance(self.network, str) and agents != owners:
                raise ValueError(f"groups must be as many as the network has agents, {agents}; got {owners}")
            return owners
        if agents > samples:
            raise ValueError(f"agents must be at most the number of samples; got {agents} agents and n_samples = {samples}")
        return agents

    def _outputs(self, X: ArrayLike) -> np.ndarray:
        """The model's outputs (samples, outputs) at the agents' mean."""
        check_is_fitted(self)
        return self.model_.predict(self.parameters_, validated(self, X, reset=False))


def validated(estimator: "NetworkEstimator", X: Any, *y: Any, reset: bool = True, **options: Any) -> Any:
    """``X`` and ``y`` as scikit-learn checks them, which keeps how many columns there are and what they are called.

    A data frame with columns of ``category`` dtype gets a feature for every category, by the columns of the fit.
    """
    columns = None if reset else estimator.columns_
    if reset and is_frame(X) and any(is_category(column) for _, column in X.items()):
        columns = Columns.of(X, "X")
    if columns is None:
        checked = _checked(estimator, X, *y, reset=reset, **options)
    else:
        codes = X.copy() if is_frame(X) else columns.transform(X, "X")  # which rejects what is no frame
        for name in X.columns:
            if str(name) in columns.categories:  # scikit-learn sees a column of zeros
                codes[name] = np.zeros(len(X))
        checked = _checked(estimator, codes, *y, reset=reset, **options)
        features = columns.transform(X, "X")
        checked = (features, *checked[1:]) if y else features
    estimator.columns_ = columns
    return checked


def _checked(estimator: BaseEstimator, *data: Any, **options: Any) -> Any:
    options = {"dtype": np.float64} | options
    try:
        try:
            from sklearn.utils.validation import validate_data
        except ImportError:  # a method before 1.6
            return estimator._validate_data(*data, **options)  # type: ignore[attr-defined]
        return validate_data(estimator, *data, **options)
    except (TypeError, ValueError):
        for name, values in zip("Xy", data, strict=False):
            _refuse(name, values, numbers=name == "X" or "y_numeric" in options)
        raise


def _refuse(name: str, values: Any, numbers: bool) -> None:
    """Raise an error that says which argument it is, where scikit-learn passes on what NumPy has to say."""
    found = _checks.dense(name, values)
    if values is not None and found.ndim == 0 and found.dtype.kind in "Oc":
        raise TypeError(f"{name} must be an array; got {_checks.shown(values)}")
    if numbers and found.dtype.kind in "OSU":
        if hasattr(values, "columns"):
            _checks.array(name, values)  # says which columns
        try:
            found.astype(float)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name} must hold real numbers: {error}") from error
