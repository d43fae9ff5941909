"""Frames: objects of a directory as Arrow columns, derived from the mapping table."""
