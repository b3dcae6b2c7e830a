"""Systems with a server, synchronous and not, and the run of one. Their names are those of :mod:`consensus.centralized`."""
