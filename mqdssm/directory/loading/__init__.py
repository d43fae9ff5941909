"""Pipelined loading of many changes, with an outcome for each."""
