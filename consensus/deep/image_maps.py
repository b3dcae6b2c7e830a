"""Linear maps of images and their adjoints: what a convolution and a mean over squares are made of.

Images are arrays (..., height, width, channels). A map M and its adjoint M* satisfy <M h, u> = <h, M* u> for all h and u.
"""

from typing import NamedTuple

import numpy as np


class Patches(NamedTuple):
    """Map from an image to the square patch around each of its pixels, with zeros beyond the edges; ``size`` is odd.

    With the kernel as a matrix W (size * size * channels, filters), rows by (row, column, channel), patches @ W is the
    convolution.
    """

    height: int
    width: int
    channels: int
    size: int

    @property
    def length(self) -> int:
        """The number of entries of a patch."""
        return self.size**2 * self.channels

    def of(self, images: np.ndarray) -> np.ndarray:
        """Return the patches (..., images * height * width, length) of images (..., images, height, width, channels)."""
        *lead, _, _, _ = images.shape
        edge = self.size // 2
        wide = np.zeros((*lead, self.height + 2 * edge, self.width + 2 * edge, self.channels), images.dtype)
        wide[..., edge : edge + self.height, edge : edge + self.width, :] = images
        found = np.empty((*lead, self.height, self.width, self.size, self.size, self.channels), images.dtype)
        for row, column in np.ndindex(self.size, self.size):
            found[..., row, column, :] = self._shifted(wide, row, column)
        return found.reshape(*lead[:-1], lead[-1] * self.height * self.width, self.length)

    def adjoint(self, patches: np.ndarray) -> np.ndarray:
        """Return images, each pixel the sum of its places in the patches."""
        *lead, rows, _ = patches.shape
        lead, edge = [*lead, rows // (self.height * self.width)], self.size // 2
        apart = patches.reshape(*lead, self.height, self.width, self.size, self.size, self.channels)
        wide = np.zeros((*lead, self.height + 2 * edge, self.width + 2 * edge, self.channels), patches.dtype)
        for row, column in np.ndindex(self.size, self.size):
            pixels = self._shifted(wide, row, column)
            pixels += apart[..., row, column, :]
        return wide[..., edge : edge + self.height, edge : edge + self.width, :]

    def _shifted(self, wide: np.ndarray, row: int, column: int) -> np.ndarray:
        """Return a view of the pixels at one place of all patches, in images with the zeros around them."""
        return wide[..., row : row + self.height, column : column + self.width, :]


class Squares(NamedTuple):
    """Map from pixels, rows (..., images * height * width, channels), to means over squares of ``size`` by ``size`` pixels."""

    height: int
    width: int
    size: int

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return images (..., images, height / size, width / size, channels)."""
        *lead, _, channels = rows.shape
        images = rows.reshape(*lead, -1, self.height, self.width, channels)
        total = images[..., :: self.size, :: self.size, :].copy()
        for row, column in list(np.ndindex(self.size, self.size))[1:]:
            total += images[..., row :: self.size, column :: self.size, :]
        total /= total.dtype.type(self.size**2)
        return total

    def adjoint(self, images: np.ndarray) -> np.ndarray:
        """Return pixels, each an equal share of its square's."""
        *lead, count, height, width, channels = images.shape
        spread = np.empty((*lead, count, height, self.size, width, self.size, channels), images.dtype)
        spread[...] = (images / images.dtype.type(self.size**2))[..., :, None, :, None, :]
        return spread.reshape(*lead, count * self.height * self.width, channels)
