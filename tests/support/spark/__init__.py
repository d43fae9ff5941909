"""Exports and jobs, by Spark and by processes of this machine."""
