"""Watches of a directory, which report changed objects."""
