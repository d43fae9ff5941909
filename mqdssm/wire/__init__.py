"""Bytes to values and back, declared once: descriptors, keys, certificates (later: protocol messages)."""
