"""Directions of rotations against images that are rotated, and the samples of the experiment with them."""

import numpy as np
import pytest

from experiments import tangent_propagation

CENTRES = np.array([[4.0, 3.0], [-6.0, 2.0], [0.0, -7.0]])


def blobs(angle=0.0, fine=1):
    """Smooth images far from the edges, turned exactly by turning their centres; ``fine`` pixels in a unit of length."""
    side = 40 * fine
    rows, columns = (np.indices((side, side)) - (side - 1) / 2) / fine
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.array([np.exp(-((rows - r) ** 2 + (columns - c) ** 2) / 30) for r, c in CENTRES @ turn.T])


def misfit(fine):
    """The largest error of the derivative, over its largest value."""
    wanted = (blobs(1e-5, fine) - blobs(-1e-5, fine)) / 2e-5
    return np.abs(tangent_propagation.rotation(blobs(0.0, fine)) - wanted).max() / np.abs(wanted).max()


def test_the_derivative_is_that_of_turned_blobs_up_to_the_square_of_a_pixel():
    assert misfit(1) < 0.04
    assert misfit(1) / misfit(2) == pytest.approx(4, rel=0.1)


def test_rotated_images_are_turned_blobs():
    for degrees in (-20.0, 5.0):
        np.testing.assert_allclose(tangent_propagation.rotated(blobs(), degrees), blobs(np.radians(degrees)), rtol=0, atol=0.02)


def test_rotated_images_move_along_the_derivative():
    found = tangent_propagation.rotation(blobs())
    moved = tangent_propagation.rotated(blobs(), 2.0) - tangent_propagation.rotated(blobs(), -2.0)
    wanted = np.radians(4.0) * found
    cosine = (moved * wanted).sum() / np.linalg.norm(moved) / np.linalg.norm(wanted)
    assert cosine > 0.99
    assert abs(np.linalg.norm(moved) / np.linalg.norm(wanted) - 1) < 0.05


def test_pixels_at_the_edge_fade_and_do_not_vanish():
    bright = np.ones((8, 8))
    np.testing.assert_array_equal(tangent_propagation.rotated(bright, 0), bright)
    turned = tangent_propagation.rotated(bright, 1)
    assert turned[4, 1:-1].min() == pytest.approx(1)
    assert 0.9 < turned[0].min() < turned[0].max() <= 1  # the edges move outwards by at most 0.06 pixels
    slope = tangent_propagation.rotation(bright)
    np.testing.assert_array_equal(slope[1:-1, 1:-1], 0)
    np.testing.assert_allclose(np.abs(slope[0, 1:-1]), np.abs(np.arange(1, 7) - 3.5) / 2)  # half of what an edge falls by


def test_rows_of_pixels_move_as_images_do():
    x = np.random.default_rng(0).random((2, 3, 1, 8, 8))
    rows = tangent_propagation.of_rows(x.reshape(2, 3, 64))
    assert rows.shape == (2, 3, 1, 64)
    np.testing.assert_array_equal(rows.reshape(2, 3, 1, 1, 8, 8), tangent_propagation.of_images(x))


@pytest.mark.parametrize("method", [0.0, 0.1, tangent_propagation.COPIES])
def test_errors_by_angle_are_those_of_the_outputs_alone(method):
    made = tangent_propagation.case(0, "digits", "perceptron", method, agents=3, every=1)
    model, (images, labels) = made[0].model, made[2]["test"]
    w = model.init(np.random.default_rng(0))
    right = model.predict(w, images)[:, :10].argmax(axis=1) == labels
    found = tangent_propagation.by_angle(made, np.tile(w, (3, 1)))
    np.testing.assert_allclose(found[tangent_propagation.ANGLES.index(0)], 1 - right.mean())
    assert (found[[0, -1]] > 0.5).all()


@pytest.mark.parametrize("network", tangent_propagation.NETWORKS)
def test_copies_of_a_sample_stay_with_its_agent(network):
    own, more = (tangent_propagation.case(1, "digits", network, method, 3, 1)[0].shards for method in (0.0, "copies"))
    assert own.samples == tangent_propagation.TRAIN
    assert more.samples == 3 * own.samples
    for agent in range(3):
        upright, turned = (part.features[agent][part.weights[agent] > 0].reshape(-1, 8, 8) for part in (own, more))
        np.testing.assert_array_equal(turned[1::3], upright)
        np.testing.assert_array_equal(turned[2::3], tangent_propagation.rotated(upright, 15))
        labels, repeated = (part.targets[agent][part.weights[agent] > 0, 0] for part in (own, more))
        np.testing.assert_array_equal(repeated, np.repeat(labels, 3))


def test_data_that_are_no_images_are_rejected():
    with pytest.raises(SystemExit, match=r"^error: diabetes must be at least 1200 square images; got 442 rows of 10 features$"):
        tangent_propagation.case(0, "diabetes", "perceptron", 0.0, 3, 1)
