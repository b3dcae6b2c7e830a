"""Agents with models, or parts of models, of their own.

They are ``consensus.solvers.Personalized`` and ``SharedBody``; the history is measured at each agent's own point.
"""
