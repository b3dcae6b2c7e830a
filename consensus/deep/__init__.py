"""Deep models with products of their own, and training by directions in place of gradients or by tangents.

They are ``consensus.models.ResNet``, ``Convolutional``, ``DirectFeedback`` and ``WithTangents``.
"""
