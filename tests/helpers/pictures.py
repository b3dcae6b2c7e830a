"""A model of images that flattens them for another model: both give the same bits."""

from dataclasses import dataclass

import consensus


@dataclass(frozen=True)
class Pictures:
    """The model ``flat`` on images of shape ``features``."""

    flat: consensus.MLP
    features: tuple

    @property
    def parameters(self):
        return self.flat.parameters

    @property
    def outputs(self):
        return self.flat.outputs

    def init(self, rng):
        return self.flat.init(rng)

    def _flat(self, x):
        assert x.shape[2:] == self.features, x.shape
        return x.reshape(*x.shape[:2], -1)

    def predict(self, w, x):
        return self.flat.predict(w, self._flat(x))

    def vjp(self, w, x, u):
        return self.flat.vjp(w, self._flat(x), u)

    def jvp(self, w, x, v):
        return self.flat.jvp(w, self._flat(x), v)


class Shared(Pictures):
    """The same with ``linearize``, one pass for all products, and ``widths``, which determine the size of blocks."""

    @property
    def widths(self):
        return self.flat.widths

    def linearize(self, w, x):
        return self.flat.linearize(w, self._flat(x))
