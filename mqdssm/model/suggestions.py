"""Hints of messages about unknown names, in one wording."""

from collections.abc import Collection


def suggest_name(
    name: str, names: Collection[str], *, otherwise: str | None = None, cutoff: float = 0.6
) -> str:
    """Return the end of a message about an unknown name.

    The nearest name is suggested; without one all names are listed.

    Args:
        name: that is unknown.
        names: that are known.
        otherwise: the end where no name is near; None: a list of `names`.
        cutoff: how similar names are at least, from 0 to 1.
    """
    from difflib import get_close_matches  # noqa: PLC0415  only needed for a mistake

    close = get_close_matches(name, names, 1, cutoff)
    if close:
        return f": did you mean {close[0]}?"
    return f": there are {', '.join(names)}" if otherwise is None else otherwise
