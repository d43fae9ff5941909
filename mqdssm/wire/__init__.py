"""Declared binary layouts: descriptors, keys, certificates and protocol messages as bytes and as values."""
