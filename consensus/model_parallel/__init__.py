"""One network whose layers or units several workers share. The names are those of :mod:`consensus.centralized`."""
