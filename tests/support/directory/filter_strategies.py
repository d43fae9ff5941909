"""Search filters for hypothesis."""

from hypothesis import strategies as st

from mqdssm.directory.filters import (
    And,
    Approx,
    Equal,
    Extensible,
    GreaterOrEqual,
    LessOrEqual,
    Not,
    Or,
    Present,
    Substrings,
)

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,10}", fullmatch=True) | st.sampled_from(
    ["objectGUID", "mSMQLabelEx", "2.5.4.3", "0.1", "cn;lang-de", "userCertificate;binary"]
)
NASTY = st.lists(st.sampled_from([*b"()*\\&|!=~<>: \0\x7f\x80\xff/,0aA"]), max_size=12).map(bytes)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(str.encode)
VALUES = st.binary(max_size=20) | NASTY | TEXTS | st.binary(min_size=120, max_size=300)
PARTS = VALUES.filter(bool)
RULES = st.sampled_from(["caseExactMatch", "1.2.840.113556.1.4.803", "2.4.6"])

COMPARISONS = (
    st.builds(Equal, NAMES, VALUES)
    | st.builds(GreaterOrEqual, NAMES, VALUES)
    | st.builds(LessOrEqual, NAMES, VALUES)
    | st.builds(Approx, NAMES, VALUES)
    | st.builds(Present, NAMES)
    | st.builds(
        lambda name, initial, middle, final: Substrings(name, initial, tuple(middle), final),
        NAMES,
        PARTS,
        st.lists(PARTS, max_size=3),
        st.none() | PARTS,
    )
    | st.builds(lambda name, middle: Substrings(name, any=tuple(middle)), NAMES, st.lists(PARTS, min_size=1))
    | st.builds(lambda name, final: Substrings(name, final=final), NAMES, PARTS)
)
EXTENSIBLE = st.builds(Extensible, NAMES, st.none() | RULES, VALUES, st.booleans()) | st.builds(
    Extensible, st.none(), RULES, VALUES, st.booleans()
)


def trees(leaves):
    """Filters of all kinds above the given leaves."""
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(Not, inner)
            | st.builds(lambda several: And(tuple(several)), st.lists(inner, min_size=1, max_size=4))
            | st.builds(lambda several: Or(tuple(several)), st.lists(inner, min_size=1, max_size=4))
        ),
        max_leaves=12,
    )


FILTERS = trees(COMPARISONS | EXTENSIBLE)
