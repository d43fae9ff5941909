"""Watches of a directory, and the servers that they run on."""
