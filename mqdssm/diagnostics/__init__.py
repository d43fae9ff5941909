"""Checks of a connection and a directory, for ``mqdssm doctor``.

A check returns findings and advice.
"""
