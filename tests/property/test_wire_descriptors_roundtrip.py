"""Any SID, entry, list, descriptor, key and certificate survives being written and read."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from support.wire.strategies import DOMAIN, U32, aces, acls, assert_length_is_law, descriptors, sids

from mqdssm.wire.certificates import UserSignCert, UserSignCerts
from mqdssm.wire.dtyp import Ace, Acl, SecurityDescriptor, Sid
from mqdssm.wire.keys import RSA_BLOB, PublicKey, PublicKeys, RsaBlob
from mqdssm.wire.masks import DescriptorControl
from mqdssm.wire.sddl import RightsStyle

# what the text has no room for
UNSAID = (
    DescriptorControl.OWNER_DEFAULTED
    | DescriptorControl.GROUP_DEFAULTED
    | DescriptorControl.DACL_DEFAULTED
    | DescriptorControl.SACL_DEFAULTED
    | DescriptorControl.DACL_TRUSTED
    | DescriptorControl.SERVER_SECURITY
    | DescriptorControl.RM_CONTROL_VALID
)


@given(sids())
def test_sid(sid):
    assert Sid.from_bytes(bytes(sid)) == sid
    assert Sid.parse(str(sid)) == sid == Sid(str(sid))
    assert_length_is_law(bytes(sid), Sid.from_bytes)


@given(aces())
def test_ace(ace):
    image = bytes(ace)
    assert len(image) == ace.size
    assert Ace.from_bytes(image) == ace
    assert_length_is_law(image, Ace.from_bytes)


@given(acls())
def test_acl(acl):
    image = bytes(acl)
    assert len(image) == acl.size
    assert Acl.from_bytes(image) == acl


@given(descriptors())
def test_descriptor(made):
    image = bytes(made)
    read = SecurityDescriptor.from_bytes(image)
    assert read == made
    assert bytes(read) == image
    assert bytes(replace(read)) == image
    assert read.dacl_form is made.dacl_form


@given(descriptors(), st.randoms(use_true_random=False))
def test_descriptor_with_its_parts_in_any_order(made, random):
    """The offsets alone place the parts, and the bytes are kept."""
    parts = [made.owner, made.group, made.sacl, made.dacl]
    order = [index for index in range(4) if parts[index] is not None]
    random.shuffle(order)
    offsets, body = [0, 0, 0, 0], b""
    for index in order:
        body += b"\xee" * random.randrange(3)
        offsets[index] = 20 + len(body)
        body += bytes(parts[index])
    image = bytes(made)[:4] + b"".join(offset.to_bytes(4, "little") for offset in offsets) + body
    read = SecurityDescriptor.from_bytes(image)
    assert read == made
    assert bytes(read) == image


@given(descriptors(), st.sampled_from([None, DOMAIN]), st.sampled_from(RightsStyle))
def test_text(made, domain, rights):
    """Everything has a text; reading it gives everything but the bits that the grammar has no room for."""
    text = made.to_sddl(domain, rights)
    read = SecurityDescriptor.from_sddl(text, domain)
    assert read.to_sddl(domain, rights) == text
    # the text has no room for these
    assert read == replace(made, control=made.control & ~said_nothing_about(made), sbz1=0)


def said_nothing_about(made):
    bits = int(UNSAID)
    if not made.control & DescriptorControl.DACL_PRESENT:
        bits |= (
            DescriptorControl.DACL_PROTECTED
            | DescriptorControl.DACL_AUTO_INHERITED
            | DescriptorControl.DACL_AUTO_INHERIT_REQUIRED
        )
    if not made.control & DescriptorControl.SACL_PRESENT:
        bits |= (
            DescriptorControl.SACL_PROTECTED
            | DescriptorControl.SACL_AUTO_INHERITED
            | DescriptorControl.SACL_AUTO_INHERIT_REQUIRED
        )
    return bits


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=40)
KEYS = st.builds(PublicKey, provider_name=NAMES, provider_type=U32, blob=st.binary(max_size=60))


@given(st.lists(KEYS, max_size=4))
def test_public_keys(keys):
    made = PublicKeys(tuple(keys))
    assert PublicKeys.from_bytes(bytes(made)) == made
    assert_length_is_law(bytes(made), PublicKeys.from_bytes)


@given(U32, U32, st.binary(max_size=64))
def test_rsa_blob(algorithm, exponent, modulus):
    made = RsaBlob(algorithm=algorithm, bits=8 * len(modulus), exponent=exponent, modulus=modulus)
    assert RSA_BLOB.decode(RSA_BLOB.encode(made)) == made
    assert_length_is_law(RSA_BLOB.encode(made), RSA_BLOB.decode)


CERTIFICATES = st.builds(
    UserSignCert,
    digest=st.binary(min_size=16, max_size=16),
    identifier=st.uuids(),
    der=st.binary(max_size=50),
)


@given(st.lists(CERTIFICATES, max_size=4))
def test_certificates(certificates):
    made = UserSignCerts(tuple(certificates))
    read = UserSignCerts.from_bytes(bytes(made))
    assert read == made
    assert read.digests() == tuple(one.digest for one in certificates)
    assert_length_is_law(bytes(made), UserSignCerts.from_bytes)
