"""Costs that move from round to round, and gradients estimated anew in each from values alone.

They are ``consensus.problems.Online`` and ``consensus.problems.ZerothOrder``.
"""
