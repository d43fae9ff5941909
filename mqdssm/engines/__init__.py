"""Protocols as state machines without I/O: `step(event, now)` returns actions.

replication   directory servers that replicate ([MC-MQDSRP])
notification  change notifications to queue managers, and their receipt ([MS-MQCN])
discovery     directory servers found by broadcast ([MS-MQSD])
session       sessions between queue managers ([MS-MQQB])
"""
