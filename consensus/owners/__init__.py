"""Tables that stay with their owners: agreement on columns and scales, predictors, and statistics by sums alone.

They are ``consensus.data.own``, ``consensus.Predictor``, and what is named here.
"""

from consensus._elsewhere import elsewhere

__getattr__, __dir__, __all__ = elsewhere(__name__)
