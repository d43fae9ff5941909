"""Directory store in memory, for tests and the simulation: fast, and with the crash behaviour of a disk."""
