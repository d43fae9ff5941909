"""Security descriptors as text, [MS-DTYP] 2.5.1."""

from itertools import combinations
from uuid import UUID

import pytest

from mqdssm.wire.dtyp import EVERYONE, AclForm, SecurityDescriptor, Sid
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sddl import DOMAIN_ALIASES, WELL_KNOWN_ALIASES, RightsStyle

DOMAIN = Sid("S-1-5-21-1-2-3")
SEND = UUID("06bd3202-df3e-11d1-9c86-006008764d0e")


def first(text):
    made = SecurityDescriptor.from_sddl(text, DOMAIN)
    assert made.dacl is not None
    return made.dacl.aces[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "O:BA",
        "G:DU",
        "O:S-1-5-21-9-8-7-1000G:S-1-5-21-9-8-7-513D:",
        "O:S-1-5-18-12D:(A;;RP;;;WD)",
        "D:NO_ACCESS_CONTROL",
        "D:PAINO_ACCESS_CONTROLS:NO_ACCESS_CONTROL",
        "D:PARAI(A;;CC;;;WD)S:PARAI(AU;SAFA;CC;;;WD)",
        "O:BAG:BAD:P(A;OICI;GRGX;;;BU)(A;OICI;GA;;;BA)(A;OICI;GA;;;SY)(A;OICI;GA;;;CO)S:P(AU;FA;GR;;;WD)",
        "D:(OA;;CR;06bd3202-df3e-11d1-9c86-006008764d0e;;WD)",
        "D:(OD;CIIO;RPWP;;bf967aba-0de6-11d0-a285-00aa003049e2;PS)",
        "D:(OA;;CC;9a0dc343-c100-11d1-bbc5-0080c76670c0;bf967aba-0de6-11d0-a285-00aa003049e2;AU)",
        "D:(OA;;CR;;;WD)",
        "D:AI(A;OICINPIOIDSAFA;0x00000200;;;DA)",
        "D:(A;;;;;WD)(D;;RPWPCRCCDCLCLORCWOWDSDDTSWGAGRGWGX;;;AN)",
        "S:(ML;;NWNRNX;;;LW)(ML;;0x00000008;;;HI)(OU;SA;CR;;;WD)(AL;FA;CC;;;WD)",
        "D:(XA;;CC;;;WD;#61727478)(0x04;OI;;;;;#01020304)(0xfe;0x20;;;;;#)(A;0x3f;CC;;;WD;#00000000)",
    ],
)
def test_canonical_text_is_stable(text):
    made = SecurityDescriptor.from_sddl(text, DOMAIN)
    assert made.to_sddl(DOMAIN) == text
    assert SecurityDescriptor.from_bytes(bytes(made)) == made
    assert SecurityDescriptor.from_sddl(made.to_sddl(DOMAIN, RightsStyle.HEX), DOMAIN) == made


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  S:D:G:BAO:WD\n", "O:WDG:BAD:S:"),
        ("D:AIPAR", "D:PARAI"),
        ("D:(A;CIOI;XX;;;WD)".replace("XX", "WPRP"), "D:(A;OICI;RPWP;;;WD)"),
        ("D:(A;;0x10;;;S-1-1-0)", "D:(A;;RP;;;WD)"),
        ("D:(A;;0X0000002B;;;s-1-5-0x12)", "D:(A;;WPCCDCSW;;;SY)"),
        ("D:(A;;020;;;WD)", "D:(A;;RP;;;WD)"),
        ("D:(A;;16;;;WD)", "D:(A;;RP;;;WD)"),
        ("D:(A;;FA;;;WD)", "D:(A;;0x001f01ff;;;WD)"),
        ("D:(A;;KR;;;WD)", "D:(A;;RPCCRCSW;;;WD)"),
        ("D:(A;;RPRP;;;WD)", "D:(A;;RP;;;WD)"),
        (
            "D:(OA;;CR;06BD3202-DF3E-11D1-9C86-006008764D0E;;WD)",
            "D:(OA;;CR;06bd3202-df3e-11d1-9c86-006008764d0e;;WD)",
        ),
        ("O:S-1-5-21-1-2-3-512", "O:DA"),
    ],
)
def test_other_ways_to_say_it(text, canonical):
    assert SecurityDescriptor.from_sddl(text, DOMAIN).to_sddl(DOMAIN) == canonical


@pytest.mark.parametrize(
    ("name", "mask"),
    [
        *{
            "RP": 0x10,
            "WP": 0x20,
            "CC": 1,
            "DC": 2,
            "LC": 4,
            "SW": 8,
            "LO": 0x80,
            "DT": 0x40,
            "CR": 0x100,
        }.items(),
        *{"RC": 0x20000, "SD": 0x10000, "WD": 0x40000, "WO": 0x80000}.items(),
        *{"GR": 0x80000000, "GW": 0x40000000, "GX": 0x20000000, "GA": 0x10000000}.items(),
        *{"FA": 0x1F01FF, "FR": 0x120089, "FW": 0x120116, "FX": 0x1200A0}.items(),
        *{"KA": 0xF003F, "KR": 0x20019, "KW": 0x20006, "KX": 0x20019}.items(),
    ],
)
def test_rights(name, mask):
    assert first(f"D:(A;;{name};;;WD)").mask == mask


def test_mandatory_label_rights_have_names_of_their_own():
    made = SecurityDescriptor.from_sddl("S:(ML;;NRNW;;;ME)")
    assert made.sacl is not None
    assert made.sacl.aces[0].mask == 3
    with pytest.raises(ValueError, match="unknown right"):
        SecurityDescriptor.from_sddl("D:(A;;NR;;;WD)")


def test_rights_of_msmq_are_better_in_hexadecimal():
    made = SecurityDescriptor.from_sddl(f"D:(A;;{QueueAccess.GENERIC_WRITE:#x};;;WD)")
    assert made.to_sddl(rights=RightsStyle.HEX) == "D:(A;;0x00020024;;;WD)"
    assert made.to_sddl() == "D:(A;;WPLCRC;;;WD)"


def test_flags():
    names = {"OI": 1, "CI": 2, "NP": 4, "IO": 8, "ID": 0x10, "SA": 0x40, "FA": 0x80}
    for pair in combinations(names, 2):
        assert first(f"D:(A;{''.join(pair)};CC;;;WD)").flags == sum(names[name] for name in pair)


def test_aliases_and_their_sids():
    for alias, sid in WELL_KNOWN_ALIASES.items():
        assert first(f"D:(A;;CC;;;{alias})").sid == sid
        assert SecurityDescriptor.build(owner=sid).to_sddl() == f"O:{alias}"
    for alias, rid in DOMAIN_ALIASES.items():
        sid = Sid(f"S-1-5-21-1-2-3-{rid}")
        assert first(f"D:(A;;CC;;;{alias})").sid == sid
        made = SecurityDescriptor.build(owner=sid)
        assert made.to_sddl(DOMAIN) == f"O:{alias}"
        assert made.to_sddl() == f"O:{sid}"
        assert made.to_sddl(Sid("S-1-5-21-1-2-4")) == f"O:{sid}"
        with pytest.raises(ValueError, match=f"{alias} is an account of a domain"):
            SecurityDescriptor.from_sddl(f"O:{alias}")


def test_forms_of_a_list():
    forms = {"": AclForm.ABSENT, "D:NO_ACCESS_CONTROL": AclForm.NULL, "D:": AclForm.EMPTY}
    for text, form in forms.items():
        made = SecurityDescriptor.from_sddl(text)
        assert made.dacl_form is form
        assert made.to_sddl() == text


def test_object_entries():
    ace = first(f"D:(OA;;CR;{SEND};;WD)")
    assert (ace.type, ace.mask, ace.object_type, ace.inherited_object_type) == (5, 0x100, SEND, None)
    assert first(f"D:(OA;;CR;;{SEND};WD)").inherited_object_type == SEND


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("X:BA", "expected O:, G:, D: or S: at 0"),
        ("O:BA O:BA", "'BA ' is neither an alias nor a SID"),
        ("O:BAO:BA", "O: appears twice"),
        ("D:D:", "D: appears twice"),
        ("O:", "no SID: ''"),
        ("O:XX", "no SID: 'XX'"),
        ("O:ba", "no SID"),
        ("d:(a;;cc;;;wd)", "expected O:"),
        ("D:Q(A;;CC;;;WD)", "unknown flag of D:"),
        ("D:P (A;;CC;;;WD)", "is not flags and entries"),
        ("D:(A;;CC;;;WD)P", "is not flags and entries"),
        ("D:(A;;CC;;;WD", "expected O:"),
        ("D:A;;CC;;;WD)", "expected O:"),
        ("D:()", "has 1 fields, must have 6"),
        ("D:(A;;CC;;;WD;;)", "has 8 fields"),
        ("D:(Q;;CC;;;WD)", "unknown type 'Q'"),
        ("D:(A;XX;CC;;;WD)", "unknown flag at 'XX'"),
        ("D:(A;;XX;;;WD)", "unknown right at 'XX'"),
        ("D:(A;;C;;;WD)", "unknown right at 'C'"),
        ("D:(A;;0x100000000;;;WD)", "do not fit 32 bits"),
        ("D:(A;;4294967296;;;WD)", "do not fit 32 bits"),
        ("D:(A;;09;;;WD)", "unknown right"),
        ("D:(A;;-1;;;WD)", "unknown right"),
        ("D:(A;;CC;;;)", "needs a SID"),
        ("D:(A;;CC;06bd3202-df3e-11d1-9c86-006008764d0e;;WD)", "has no object type"),
        ("D:(OA;;CC;06bd3202;;WD)", "'06bd3202' is no GUID"),
        ("D:(OA;;CC;{06bd3202-df3e-11d1-9c86-006008764d0e};;WD)", "is no GUID"),
        ("D:(XA;;FX;;;WD;(@User.Title==1))", "expected O:"),
        ("D:(XA;;FX;;;WD;Title)", "read in hexadecimal only"),
        ("D:(XA;;FX;;;WD;#123)", "read in hexadecimal only"),
        ("D:(XA;;FX;;;WD;#1234)", "multiple of 4"),
        ("D:(0x100;;CC;;;WD)", "unknown type"),
        ("D:NO_ACCESS_CONTROL(A;;CC;;;WD)", "NO_ACCESS_CONTROL has no entries"),
        ("D:NO_ACCESS_CONTROLNO_ACCESS_CONTROL", "unknown flag"),
        ("D:" + "(A;;CC;;;WD)" * 3300, "at most 65535"),
        ("D:" + "(A;;CC;;;WD)" * 90000, "characters, at most 1048576"),
    ],
)
def test_what_is_no_descriptor(text, problem):
    with pytest.raises(ValueError, match=problem):
        SecurityDescriptor.from_sddl(text, DOMAIN)


def test_rights_can_be_nothing():
    assert first("D:(A;;;;;WD)").mask == first("D:(A;;0;;;WD)").mask == 0
    assert first("D:(A;;;;;WD)").sid == EVERYONE
