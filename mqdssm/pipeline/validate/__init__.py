"""Validation: rules over a source, and their findings.

A source is an export, a directory or MQIS tables.
"""
