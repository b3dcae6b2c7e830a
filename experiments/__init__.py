"""Experiments: one script a figure or table. ``python -m experiments`` lists them."""
