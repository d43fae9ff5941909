"""Directory replication ([MC-MQDSRP]) without input and output.

The engine uses no sockets, clock, chance or directory.
"""
