"""How AdaptiveNEXT does on hundreds of cases: ``python -m experiments.robustness``."""
