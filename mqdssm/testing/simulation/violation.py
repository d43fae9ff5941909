"""What the simulation looks for."""


class Violation(Exception):  # noqa: N818  it is a finding, as the summary calls it
    """A property that every run has to have was broken: by the engine, or by the store."""
