"""Deep models with products of their own, training by directions in place of gradients or by tangents, and methods for them.

The models are ``consensus.models.ResNet``, ``Convolutional``, ``DirectFeedback`` and ``WithTangents``; the methods
``consensus.solvers.DiLoCo``, ``NoLoCo``, ``RelaySGD``, ``DSGDm``, ``DecentLaM``, ``QGDSGDm`` and ``GUT``,
and ``directions.Muon`` and ``AccumAdam``.
"""
