"""Tables that stay with their owners, who agree on columns and scales, and predictors of what they have trained.

They are ``consensus.data.own`` and ``consensus.Predictor``.
"""
