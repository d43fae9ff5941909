"""Directory store in memory, with the crash behaviour of a disk.

Tests and the simulation use it.
"""
