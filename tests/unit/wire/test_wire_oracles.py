"""What others make of the same bytes: Samba's own code and winacl."""

import json
import re
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.wire.strategies import DOMAIN, SHORT_AUTHORITIES, common_aces, descriptors, sids
from winacl.dtyp.security_descriptor import SECURITY_DESCRIPTOR
from winacl.dtyp.sid import SID

from mqdssm.wire.dtyp import AclForm, SecurityDescriptor, Sid, allow, allow_object
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sddl import DOMAIN_ALIASES, WELL_KNOWN_ALIASES

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "descriptors.json").read_text())
CORPUS = [
    "O:BAG:BAD:P(A;CIOI;GRGX;;;BU)(A;CIOI;GA;;;BA)(A;CIOI;GA;;;SY)(A;CIOI;GA;;;CO)S:P(AU;FA;GR;;;WD)",
    "O:DAG:DUD:PAI(A;;RPWPCRCCDCLCLORCWOWDSDDTSW;;;DA)(OA;;CR;06bd3202-df3e-11d1-9c86-006008764d0e;;WD)",
    "D:(OA;CIIO;RP;4c164200-20c0-11d0-a768-00aa006e0529;4828cc14-1437-45bc-9b07-ad6f015e5f28;RU)",
    "D:AR(A;OICINPIOID;LCRPLORC;;;AU)(OD;CI;WP;;bf967aba-0de6-11d0-a285-00aa003049e2;PS)",
    "D:S:",
    "D:",
    "O:S-1-5-21-9-8-7-1000G:S-1-5-21-9-8-7-513",
    "D:(A;;0x2002b;;;WD)(A;;0xf003f;;;S-1-5-21-1-2-3-1103)(D;;0x20024;;;AN)",
    "D:(A;;;;;WD)(A;;0x01000000;;;BA)(A;;0x00100000;;;SY)",
    "S:AI(OU;CISA;WP;f30e3bbe-9ff0-11d1-b603-0000f80367c1;bf967aa5-0de6-11d0-a285-00aa003049e2;WD)",
    "D:(A;;FR;;;WD)(A;;FW;;;WD)(A;;FX;;;WD)(OL;SAFA;CR;;;WD)(AL;FA;CC;;;WD)",
    *(f"O:{alias}G:{alias}D:(A;;CC;;;{alias})" for alias in (*WELL_KNOWN_ALIASES, *DOMAIN_ALIASES)),
    *(f"D:(A;;{1 << bit:#x};;;WD)" for bit in range(32)),
]


def test_samba_reads_text_as_we_do_and_writes_it_as_we_do(samba):
    for text, answer in zip(CORPUS, samba.ask([("sddl", text, str(DOMAIN)) for text in CORPUS]), strict=True):
        ours, theirs = SecurityDescriptor.from_sddl(text, DOMAIN), bytes.fromhex(answer["hex"])
        assert ours.to_sddl(DOMAIN) == answer["sddl"], text
        read = SecurityDescriptor.from_bytes(theirs)
        assert bytes(read) == theirs
        assert read.to_sddl(DOMAIN) == answer["sddl"]
        assert (read.owner, read.group, read.control) == (ours.owner, ours.group, ours.control)
        for mine, yours in ((ours.dacl, read.dacl), (ours.sacl, read.sacl)):
            assert (mine is None) == (yours is None)
            assert mine is None or yours is None or mine.aces == yours.aces, text


SCHEMA_FILES = Path("/usr/share/samba/setup/ad-schema")  # Debian: samba-ad-provision


def default_descriptors():
    """Every defaultSecurityDescriptor of Microsoft's schema files, as Samba brings them along."""
    texts = set()
    for path in sorted(SCHEMA_FILES.glob("*_Classes.txt")):
        unfolded = re.sub(r"\r?\n ", "", path.read_text(encoding="utf-8", errors="replace"))
        texts.update(re.findall(r"(?im)^defaultSecurityDescriptor:[ \t]*(\S.*?)[ \t\r]*$", unfolded))
    return sorted(texts)


def test_default_descriptors_of_active_directory(samba):
    texts = default_descriptors()
    if not texts:
        pytest.skip(f"needs Samba's schema files in {SCHEMA_FILES} (Debian: apt install samba-ad-provision)")
    for text, answer in zip(texts, samba.ask([("sddl", text, str(DOMAIN)) for text in texts]), strict=True):
        ours = SecurityDescriptor.from_sddl(text, DOMAIN)
        assert ours.to_sddl(DOMAIN) == answer["sddl"]
        theirs = bytes.fromhex(answer["hex"])
        assert bytes(SecurityDescriptor.from_bytes(theirs)) == theirs


def test_samba_reads_our_bytes_and_writes_the_same(samba):
    images = [
        bytes(SecurityDescriptor.from_sddl(text, DOMAIN)).hex()
        for text in CORPUS
        if text.startswith(("O", "D"))
    ]
    answers = samba.ask([("bytes", image, str(DOMAIN)) for image in images])
    assert [answer["hex"] for answer in answers] == images


@given(
    st.lists(
        descriptors(sids(SHORT_AUTHORITIES), common_aces(sids(SHORT_AUTHORITIES)), null=False),
        min_size=1,
        max_size=30,
    )
)
def test_samba_agrees_on_any_descriptor(samba, made):
    answers = samba.ask([("bytes", bytes(one).hex(), str(DOMAIN)) for one in made])
    for ours, answer in zip(made, answers, strict=True):
        assert bytes.fromhex(answer["hex"]) == bytes(ours)
        assert answer["sddl"] == ours.to_sddl(DOMAIN)


@given(st.lists(sids(SHORT_AUTHORITIES), min_size=1, max_size=50))
def test_samba_agrees_on_any_sid(samba, made):
    texts = samba.ask([("sid", bytes(one).hex(), "") for one in made])
    assert texts == [str(one) for one in made]
    packets = samba.ask([("pack-sid", str(one), "") for one in made])
    assert packets == [bytes(one).hex() for one in made]


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(bytes.fromhex(vector["hex"]), id=vector["id"])
        for vector in VECTORS
        if vector["kind"] == "descriptor" and vector["id"] != "sd-slack-in-acl"
    ],
)
def test_winacl_reads_the_vectors_as_we_do(image):
    compare_with_winacl(SecurityDescriptor.from_bytes(image), image)


@given(descriptors(of=common_aces(sids()).filter(lambda ace: ace.type != 8)))  # it knows no object alarms
def test_winacl_agrees_on_any_descriptor(made):
    compare_with_winacl(made, bytes(made))
    theirs = SECURITY_DESCRIPTOR.from_bytes(bytes(made)).to_bytes()
    assert theirs == bytes(made)


def compare_with_winacl(ours, image):
    theirs = SECURITY_DESCRIPTOR.from_bytes(image)
    assert int(theirs.Control) == ours.control
    for mine, yours in ((ours.owner, theirs.Owner), (ours.group, theirs.Group)):
        assert (mine is None) == (yours is None)
        assert mine is None or bytes(mine) == yours.to_bytes()
    for mine, yours in ((ours.dacl, theirs.Dacl), (ours.sacl, theirs.Sacl)):
        assert (mine is None) == (yours is None)
        if mine is None:
            continue
        assert len(mine.aces) == len(yours.aces)
        for ace, other in zip(mine.aces, yours.aces, strict=True):
            assert (ace.type, ace.flags) == (other.AceType.value, int(other.AceFlags))
            assert ace.mask == other.Mask
            assert ace.sid is not None
            assert bytes(ace.sid) == other.Sid.to_bytes()
            if hasattr(other, "ObjectType"):
                assert guid_of(other.ObjectType) == ace.object_type
                assert guid_of(other.InheritedObjectType) == ace.inherited_object_type


def guid_of(guid):
    return None if guid is None else UUID(bytes_le=guid.to_bytes())


@given(sids())
def test_winacl_agrees_on_any_sid(sid):
    assert SID.from_bytes(bytes(sid)).to_bytes() == bytes(sid)


def test_a_queue_as_its_clients_see_it(samba):
    """The descriptor of a queue, as we make it, means the same to Samba, winacl and us."""
    send = UUID("06bd3202-df3e-11d1-9c86-006008764d0e")
    made = SecurityDescriptor.build(
        owner=Sid("S-1-5-21-1-2-3-1103"),
        dacl=[allow(Sid("S-1-1-0"), QueueAccess.GENERIC_WRITE), allow_object(Sid("S-1-1-0"), 0x100, send)],
    )
    compare_with_winacl(made, bytes(made))
    (answer,) = samba.ask([("bytes", bytes(made).hex(), str(DOMAIN))])
    assert answer["sddl"] == (
        "O:S-1-5-21-1-2-3-1103D:(A;;WPLCRC;;;WD)(OA;;CR;06bd3202-df3e-11d1-9c86-006008764d0e;;WD)"
    )
    assert made.dacl_form is AclForm.ENTRIES
