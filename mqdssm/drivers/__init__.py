"""Drivers that run the engines: threads, timers, queue managers, keys.

Programs that replicate begin with `mqdssm.drivers.replication.ReplicationDriver`.
"""
