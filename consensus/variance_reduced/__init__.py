"""Gradient tracking with batches whose variance falls: by stored gradients, snapshots and recursive estimates.

They are ``consensus.solvers.GTSAGA``, ``GTVR``, ``GTSARAH`` and ``GTHSGD``.
"""
