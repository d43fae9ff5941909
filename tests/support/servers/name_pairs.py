"""Pairs of names that look alike, and what a server makes of them."""

from typing import Final

import mqdssm
from mqdssm.directory.session import Session

PAIRS: Final[dict[str, tuple[str, str]]] = {
    "case": ("abc", "ABC"),
    "case of umlauts": ("zürich", "ZÜRICH"),
    "case of full width": ("\uff2d", "\uff4d"),
    "case beyond the first plane": ("\U00010400", "\U00010428"),
    "case of new letters": ("\u0250", "\u2c6f"),
    "title case": ("ǆ", "ǅ"),
    "case of digraphs": ("ǆ", "Ǆ"),
    "Roman numerals": ("ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩⅪⅫⅬⅭⅮⅯ", "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅺⅻⅼⅽⅾⅿ"),
    "circled letters": ("ⒶⒷⒸⒹⒺⒻⒼⒽⒾⒿⓀⓁⓂⓃⓄⓅⓆⓇⓈⓉⓊⓋⓌⓍⓎⓏ", "ⓐⓑⓒⓓⓔⓕⓖⓗⓘⓙⓚⓛⓜⓝⓞⓟⓠⓡⓢⓣⓤⓥⓦⓧⓨⓩ"),
    "final sigma": ("όδος", "ΌΔΟΣ"),
    "two small sigmas": ("όδος", "όδοσ"),
    "dotted I": ("\u0130x", "ix"),
    "dotted and plain I": ("\u0130x", "Ix"),
    "I with a dot": ("I\u0307y", "iy"),
    "both dotted": ("I\u0307y", "\u0130y"),
    "dotless i": ("ıi", "ii"),
    "sharp s": ("straße", "strasse"),
    "sharp s and capitals": ("straße", "STRASSE"),
    "long s": ("\u017f", "s"),
    "double blanks": ("New York", "New  York"),
    "no-break space": ("New\u00a0York", "New York"),
    "tabulator": ("New\tYork", "New York"),
    "leading blank": (" x", "x"),
    "trailing blank": ("x ", "x"),
    "zero width space": ("\u200bz", "z"),
    "soft hyphen": ("\u00adz", "z"),
    "NFC and NFD": ("Zürich", "Zu\u0308rich"),
    "diacritics": ("Zürich", "Zurich"),
    "ligature": ("\ufb01x", "fix"),
    "full width": ("\uff2d15", "M15"),
    "half width": ("カ", "ｶ"),
    "kana": ("カ", "か"),
    "Kelvin": ("\u212a", "k"),
    "Ångström": ("\u212b", "Å"),
    "micro": ("\u00b5", "\u03bc"),
    "fraction": ("½", "1\u20442"),
    "circled digit": ("①", "1"),
}


def are_one(session: Session, number: int, pair: tuple[str, str]) -> bool:
    """True if the server takes two names of sites for one; a prefix tells each pair from the others."""
    base = session.naming.configuration.child("CN", "Sites")
    one, other = (f"{name}t{number}" if pair[0][0] == " " else f"t{number}{name}" for name in pair)
    session.add(base.child("CN", one), {"objectClass": [b"site"]})
    try:
        session.add(base.child("CN", other), {"objectClass": [b"site"]})
    except mqdssm.ObjectAlreadyExists:
        return True
    return False
