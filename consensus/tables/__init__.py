"""Files and data frames as features and targets, data sets by name, and their training and test parts.

They are ``consensus.datasets``, with ``load``, ``split`` and ``folds``, and ``consensus.data.Pipeline``.
"""
