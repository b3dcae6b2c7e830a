"""Common parts of the experiments: options and folders, cases, tables and curves."""
