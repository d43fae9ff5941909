"""Sources of change hints for each kind of server; the hints are always verified by reading."""
