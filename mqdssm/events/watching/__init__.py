"""Watching a directory: whoever changes it, one is told of the objects that were changed."""
