"""All agents on a GPU, or another device of PyTorch's, by the methods that run on NumPy."""

from consensus.device.engine import Device

__all__ = ["Device"]
