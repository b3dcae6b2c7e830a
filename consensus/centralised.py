"""Another spelling of :mod:`consensus.centralized`."""

from consensus.centralized import *  # noqa: F403
