"""Bytes of the protocols: strategies, layouts, vectors, certificates."""
