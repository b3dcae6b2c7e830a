"""Common parts of the experiments: their harness, cases, results, tables and curves."""
