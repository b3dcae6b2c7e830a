"""Robustness of AdaptiveNEXT on hundreds of cases: ``python -m experiments.robustness``."""
