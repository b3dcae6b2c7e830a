"""Problems whose models are more than a perceptron, with solvers, for runs that are compared between engines."""

import numpy as np

import consensus
from consensus.models import MLP, Convolutional, DirectFeedback, WithTangents
from consensus.solvers import GradientTracking
from tests.helpers.pictures import Pictures
from tests.helpers.problems import data


def trained(agents, sizes):
    """Problems, solvers and options of runs by name, with so many samples of each agent."""
    X, y = data(samples=sum(sizes))
    pairs, images = X.reshape(-1, 2, 2), X.reshape(-1, 1, 2, 2)

    def problem(model, loss, X, y):
        return consensus.Problem(model, loss, consensus.partition(X, y, agents, "sizes", sizes=sizes), consensus.L2(0.02))

    feedback = DirectFeedback(MLP([4, 6, 5, 1]), seed=1)
    tangents = WithTangents(Convolutional((1, 2, 2), [3], 1), np.ones((2, 1, 2, 2)))
    squared, solver = consensus.SquaredLoss(), GradientTracking(0.05, batch=3)
    penalised = consensus.TangentPropagation(squared, 0.1, directions=2)
    return {
        "images": (problem(Pictures(MLP([4, 3, 1]), (2, 2)), squared, pairs, y), solver, {"test": (pairs, y)}),
        "direct feedback": (problem(feedback, consensus.LogisticLoss(), X, (y > 0.2).astype(float)), solver, {}),
        "convolutions with tangents": (problem(tangents, penalised, images, y), solver, {"test": (images, y)}),
    }
