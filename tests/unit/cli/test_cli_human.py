"""Values as people read them."""

from uuid import UUID

import pytest

from mqdssm.cli.objects import display
from mqdssm.model.elements import Queue, QueueManager, User
from mqdssm.model.enums import OperatingSystemType, PrivacyLevel
from mqdssm.tables import TABLES
from mqdssm.wire.certificates import UserSignCerts
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.keys import PublicKeys


@pytest.mark.parametrize(
    ("element", "name", "value", "text"),
    [
        (Queue, "Label", "x", "x"),
        (Queue, "Label", None, ""),
        (Queue, "Journaling", True, "true"),
        (Queue, "Journaling", False, "false"),
        (Queue, "Quota", 4294967295, "4294967295"),
        (Queue, "PrivacyLevel", PrivacyLevel.NONE, "None"),
        (Queue, "PrivacyLevel", 77, "77"),
        (QueueManager, "OperatingSystemType", OperatingSystemType.WIN_SERVER, "WinServer"),
        (Queue, "CreateTime", 0, "1970-01-01T00:00:00Z"),
        (Queue, "CreateTime", 1795227837, "2026-11-21T02:23:57Z"),
        (Queue, "CreateTime", 10**15, "1000000000000000"),
        (Queue, "Identifier", UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (QueueManager, "SiteIdentifierList", (UUID(int=1), UUID(int=2)), f"{UUID(int=1)}, {UUID(int=2)}"),
        (QueueManager, "SiteIdentifierList", (), ""),
        (
            Queue,
            "Security",
            bytes(SecurityDescriptor.from_sddl("D:(A;;0x2002b;;;WD)")),
            "D:(A;;0x0002002b;;;WD)",
        ),
        (QueueManager, "PublicEncryptionKeyList", bytes(PublicKeys()), "no keys"),
        (QueueManager, "PublicEncryptionKeyList", b"", ""),
        (User, "Certificates", bytes(UserSignCerts()), "no certificates"),
        (User, "CertificateDigestList", (b"\1" * 16,), "01" * 16),
    ],
)
def test_text(element, name, value, text):
    assert display.text_of(TABLES[element].row(name), value) == text


@pytest.mark.parametrize("name", ["Security", "PublicEncryptionKeyList", "PublicSigningKeyList"])
def test_damaged_bytes_are_shown_as_such(name):
    text = display.text_of(TABLES[QueueManager].row(name), b"\xff\xff\xff")
    assert text.startswith("3 bytes, damaged: [MS-")


def test_keys_and_certificates_are_named():
    from mqdssm.wire.certificates import UserSignCert
    from mqdssm.wire.keys import PublicKey

    keys = PublicKeys(keys=(PublicKey(provider_name="P", blob=b"12345"),))
    row = TABLES[QueueManager].row("PublicEncryptionKeyList")
    assert display.text_of(row, bytes(keys)) == "P, 5 bytes"
    certificate = UserSignCert.of(b"der", UUID(int=1))
    text = display.text_of(
        TABLES[User].row("Certificates"), bytes(UserSignCerts(certificates=(certificate,)))
    )
    assert text == f"{certificate.digest.hex()}, 3 bytes"


def test_only_what_is_populated_is_shown():
    queue = Queue(label="x")
    assert list(display.format_pairs(queue, TABLES[Queue])) == [("Label", "x")]
    rows = TABLES[Queue].find_rows(["Label", "Quota"])
    assert display.format_cells(queue, rows) == ["x", ""]
