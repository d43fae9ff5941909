"""Nightly validation: repeated runs, and what changed between them.

The package has known findings, suppressions, thresholds, history and metrics.
All modules work on saved findings, of any engine.
"""
