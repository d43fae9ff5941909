"""Directory replication ([MC-MQDSRP]) without input and output.

It uses no sockets, clock, chance or directory.
"""
