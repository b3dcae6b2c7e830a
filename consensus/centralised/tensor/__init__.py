"""Matrices and linear maps spread over ranks in one, two and three dimensions."""
