"""Exact sums along a spanning tree of the network, and the methods of the pooled problem that they allow.

They are ``consensus.communication.Tree`` and ``consensus.solvers.TreeLBFGS`` and ``TreeNewton``.
"""
