"""Checks of a connection and a directory, for ``mqdssm doctor``.

They return findings and advice.
"""
