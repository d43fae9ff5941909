"""Whole enterprises in one process, from a seed ([MC-MQDSRP]).

Engines are real, time and network are simulated.
"""
