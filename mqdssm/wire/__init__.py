"""Declared binary layouts of descriptors, keys and protocol messages.

They convert bytes into values and back. Certificates have a layout as well.
"""
