"""Realistic enterprises of any size to try things on, the same for the same seed wherever they are made.

`generate` writes one as MQIS tables or as LDIF. Every object follows from its number alone, so nothing is
kept in memory but what is just being written.
"""
