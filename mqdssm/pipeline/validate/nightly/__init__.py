"""Nightly validation: known findings, suppressions, thresholds, history and metrics of runs.

All modules work on saved findings, of any engine.
"""
