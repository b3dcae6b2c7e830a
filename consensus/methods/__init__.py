"""Methods that few networks or problems ask for: agents that only broadcast, and acceleration beside a regularizer.

They are ``consensus.solvers.PullDiag`` and ``DAPG``.
"""
