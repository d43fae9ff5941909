"""Nightly validation: known findings, suppressions, thresholds, history and metrics of runs.

All of it works on findings as they were saved, whatever engine found them.
"""
