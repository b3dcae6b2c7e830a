"""Solvers without settings on ten cases on which no constant was chosen."""
