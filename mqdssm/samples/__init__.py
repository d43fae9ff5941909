"""Realistic sample enterprises of any size, reproducible by their seed.

The same seed gives the same enterprise on every machine.
`generate` writes an enterprise as MQIS tables or as LDIF. Every object is computed from its number, so only
the object that is being written is in memory.
"""
