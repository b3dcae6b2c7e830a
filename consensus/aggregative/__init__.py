"""Agents with variables of their own, whose costs depend on an aggregate of all, as robots around a barycentre.

They are ``consensus.problems.Aggregative`` and ``consensus.solvers.AggregativeGT``.
"""
