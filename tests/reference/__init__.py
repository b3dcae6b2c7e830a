"""Updates of methods in plain NumPy, as their papers have them, and what equals them."""
