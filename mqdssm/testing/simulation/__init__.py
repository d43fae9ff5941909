"""Whole enterprises in one process: real engines, simulated time and network, a seed ([MC-MQDSRP])."""
