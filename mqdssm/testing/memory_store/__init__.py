"""Directory store in memory, for tests and the simulation.

It is fast, and has the crash behaviour of a disk.
"""
