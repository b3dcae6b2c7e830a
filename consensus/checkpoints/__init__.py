"""Checkpoints of runs, results and predictors as files, and how a run is told from another one."""
