"""Agents with variables of their own, which coupled constraints bind together.

They are ``consensus.problems.Coupled`` with its costs, and ``consensus.solvers.TrackingADMM``.
"""
