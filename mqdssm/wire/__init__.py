"""Declared binary layouts of descriptors, keys and protocol messages.

A layout converts bytes into values and back. Certificates have a layout as well.
"""
