"""Simulation of sessions between queue managers, from seeds.

See docs/simulation.md.
"""
