"""Federated methods: a server averages what its clients have trained. Their names are those of :mod:`consensus.centralized`."""
