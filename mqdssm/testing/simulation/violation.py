"""Exception for a broken property of a run."""


class Violation(Exception):  # noqa: N818  the summary of runs calls it a violation
    """An engine or a store broke a property that every run must have."""
