"""Validation: rules over an export, a directory or MQIS tables, and their findings."""
