"""Stores: they perform the directory operations of the replication engine."""
