"""Frames: objects of a directory as Arrow columns.

The columns are derived from the mapping table.
"""
