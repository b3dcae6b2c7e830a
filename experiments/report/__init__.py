"""The report on a folder of results: ``python -m experiments.report FOLDER``."""
