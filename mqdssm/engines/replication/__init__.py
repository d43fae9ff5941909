"""Directory replication without sockets, clock, chance or directory ([MC-MQDSRP])."""
