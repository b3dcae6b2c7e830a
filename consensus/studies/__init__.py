"""Compare solvers over problems, networks and seeds: tuned fairly, resumable, with bands, tables and what is significant.

A ``Study`` runs every solver on every case and seed, tunes each ``Grid`` on seeds of its own, and keeps every run in a file.
``NoisyMessages`` adds noise to what agents send.
"""

from consensus._elsewhere import elsewhere

__getattr__, __dir__, __all__ = elsewhere(__name__)
