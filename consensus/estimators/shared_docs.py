"""Sections of docstrings that the estimators share."""

PARAMETERS = """
    hidden_layer_sizes : int or sequence of int
        Units of the hidden layers (tanh); ``()`` is a linear model.
    alpha : float
        Weight of the penalty ``alpha (l1_ratio |W|_1 + (1 - l1_ratio)/2 |W|^2)``. Intercepts and biases are not penalised.
    l1_ratio : float
        From 0, L2, to 1, L1.
    agents : int
        Number of agents that share the samples. Groups, a graph or a schedule have their own number of agents.
    network : str, networkx.Graph or schedule
        ``"erdos_renyi"`` (connected, drawn from ``random_state``), ``"ring"``, ``"path"``, ``"star"``, ``"complete"``; or any
        graph or schedule that :func:`consensus.solve` takes.
    solver : Solver, optional
        By default :class:`consensus.solvers.Auto`, which chooses a method that has nothing to tune.
    scheme : {"iid", "sorted", "dirichlet"}
        How :func:`consensus.partition` gives samples to agents.
    max_iter : int
        Largest number of rounds.
    tol : float
        Agents stop when stationarity and disagreement are both at most this; those of a linear model at
        ``max(1e-4 tol, 1e-10)``, so that coefficients are as exact as those of scikit-learn.
    random_state : int, RandomState or None
        Seed of the partition, a random network and the start.
    verbose : bool
        Show progress, as ``progress`` of :func:`consensus.solve`.
""".strip()
ATTRIBUTES = """
    history_ : History
        History of the run, in the agents' standardised units.
    network_ : schedule
        The network of the run.
    agents_ : int
        Number of agents.
    n_iter_ : int
        Number of rounds.
    n_features_in_, feature_names_in_
        As in scikit-learn, the second for data frames. A column of ``category`` dtype counts as one.
    columns_ : Columns or None
        For data frames with columns of pandas' ``category`` dtype: ``columns_.features`` are the names of the model's features,
        one for every category, to which ``coef_`` belongs.
    model_ : Linear or MLP
        The model.
    parameters_ : ndarray (P,)
        Its parameters for ``X`` and ``y`` in original units: the agents' mean.

    Raises
    ------
    ValueError, TypeError
        By ``fit``: as scikit-learn's estimators, for unsuitable data and arguments; also for fewer samples than agents, and for
        a number of groups that is not the number of nodes of a graph.

    Warns
    -----
    ConvergenceWarning
        If ``max_iter`` rounds do not reach ``tol``.
""".strip()
