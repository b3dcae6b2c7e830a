"""Directions of rotations against images that are rotated."""

import numpy as np

from experiments import tangent_propagation
from experiments.shared import rotations


def blobs(side=40):
    """Smooth images, far from the edges."""
    rows, columns = np.indices((side, side)) - (side - 1) / 2
    places = ((4.0, 3.0), (-6.0, 2.0), (0.0, -7.0))
    return np.array([np.exp(-((rows - r) ** 2 + (columns - c) ** 2) / 30) for r, c in places])


def turned(angle, side=40):
    """The same blobs, turned exactly: their centres are."""
    rows, columns = np.indices((side, side)) - (side - 1) / 2
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    centres = np.array([[4.0, 3.0], [-6.0, 2.0], [0.0, -7.0]]) @ turn.T
    return np.array([np.exp(-((rows - r) ** 2 + (columns - c) ** 2) / 30) for r, c in centres])


def test_the_derivative_is_that_of_turned_blobs():
    wanted = (turned(1e-5) - turned(-1e-5)) / 2e-5
    found = rotations.rotation(blobs())
    sign = np.sign((found * wanted).sum())
    np.testing.assert_allclose(sign * found, wanted, rtol=0, atol=0.02 * np.abs(wanted).max())


def test_rotated_images_move_along_the_derivative():
    found = rotations.rotation(blobs())
    moved = rotations.rotated(blobs(), 2.0) - rotations.rotated(blobs(), -2.0)
    wanted = np.radians(4.0) * found
    cosine = (moved * wanted).sum() / np.linalg.norm(moved) / np.linalg.norm(wanted)
    assert cosine > 0.99
    assert abs(np.linalg.norm(moved) / np.linalg.norm(wanted) - 1) < 0.05


def test_rows_of_pixels_move_as_images_do():
    x = np.random.default_rng(0).random((2, 3, 1, 8, 8))
    rows = rotations.of_rows(x.reshape(2, 3, 64))
    assert rows.shape == (2, 3, 1, 64)
    np.testing.assert_array_equal(rows.reshape(2, 3, 1, 1, 8, 8), rotations.of_images(x))


def test_errors_by_angle_are_those_of_the_model_without_derivatives():
    case = tangent_propagation.digits("digits", "perceptron", 0.1, 3, seed=0)
    model = case.problem.model
    w = model.init(np.random.default_rng(0))
    images, labels = case.test
    right = model.predict(w, images)[:, :10].argmax(axis=1) == labels
    found = tangent_propagation.by_angle(case, np.tile(w, (3, 1)))
    np.testing.assert_allclose(found[tangent_propagation.ANGLES.index(0)], 1 - right.mean())
    assert case.problem.shards.samples == tangent_propagation.TRAIN
