"""Images that are rotated a little, and the directions in which they then move."""

import numpy as np
from scipy import ndimage


def rotated(images, degrees):
    """Images (..., side, side) turned about their centre, by linear interpolation, with zeros around them."""
    return ndimage.rotate(images, degrees, axes=(-2, -1), reshape=False, order=1, mode="grid-constant")


def rotation(images):
    """The derivative of images (..., side, side) in the angle, in radians, by central differences: as for ``rotated``."""
    side = images.shape[-1]
    rows, columns = np.indices((side, side)) - (side - 1) / 2
    around = np.pad(images, [(0, 0)] * (images.ndim - 2) + [(1, 1)] * 2)
    down, right = (slope[..., 1:-1, 1:-1] for slope in np.gradient(around, axis=(-2, -1)))
    return columns * down - rows * right


def of_images(x):
    """The direction of each sample x (agents, samples, 1, side, side), as :class:`consensus.models.WithTangents` takes it."""
    return rotation(x)[:, :, None]


def of_rows(x):
    """The same for samples whose pixels are a row (agents, samples, side * side)."""
    side = int(np.sqrt(x.shape[-1]))
    return rotation(x.reshape(*x.shape[:2], side, side)).reshape(*x.shape[:2], 1, -1)
