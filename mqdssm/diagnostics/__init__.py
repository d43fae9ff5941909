"""Checks of a connection and a directory, with findings and advice: those of ``mqdssm doctor``."""
