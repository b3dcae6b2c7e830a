"""Gradient tracking and ADMM with batches whose variance falls: by stored gradients, snapshots, recursions and averages.

They are ``consensus.solvers.GTSAGA``, ``GTVR``, ``GTSARAH``, ``GTHSGD``, ``Normalized`` and ``LTADMMVR``.
"""
