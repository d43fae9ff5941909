"""Support of the tests of `mqdssm sync`."""
