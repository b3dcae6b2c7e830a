"""Agents that are not alike: costs of different kinds, regularizers and sets of their own, costs that are not smooth.

They are :meth:`consensus.Problem.from_agents`, ``regularizer=[...]`` of any problem, and ``consensus.solvers.Subgradient``.
"""
