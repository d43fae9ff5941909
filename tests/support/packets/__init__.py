"""Packets of the binary protocol for tests."""
