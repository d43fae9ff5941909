"""Whole enterprises in one process: real engines, a simulated clock and network, faults from a seed ([MC-MQDSRP])."""
