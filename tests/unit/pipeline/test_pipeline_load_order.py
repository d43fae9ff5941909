"""Which objects stand above the exported ones, and in which order files of LDIF are loaded."""

from mqdssm.directory.profile import Naming
from mqdssm.model.dn import DN
from mqdssm.pipeline.export.load_order import Parents, list_missing_parents, load_order
from mqdssm.pipeline.manifest import ExportedFile

ROOT = DN.parse("DC=example,DC=com")
CONFIGURATION = ROOT.child("CN", "Configuration")
NAMING = Naming(
    root=ROOT,
    configuration=CONFIGURATION,
    schema=CONFIGURATION.child("CN", "Schema"),
    default=ROOT,
    forest=ROOT,
)


def above(*dns: str) -> set[str]:
    return set(list_missing_parents(lambda: iter(dns), NAMING))


def test_everything_up_to_the_root_once() -> None:
    queues = [f"CN=q{n},CN=msmq,CN=pc{n % 2},CN=Computers,DC=example,DC=com" for n in range(4)]
    assert above(*queues) == {
        "DC=example,DC=com",
        "CN=Computers,DC=example,DC=com",
        *(f"CN=pc{n},CN=Computers,DC=example,DC=com" for n in range(2)),
        *(f"CN=msmq,CN=pc{n},CN=Computers,DC=example,DC=com" for n in range(2)),
    }


def test_what_is_exported_is_not_missing_however_it_is_written() -> None:
    assert above("CN=q,CN=msmq,CN=PC,DC=example,DC=com", "cn=MSMQ, cn=pc,dc=example,dc=com") == {
        "CN=PC,DC=example,DC=com",
        "DC=example,DC=com",
    }


def test_names_with_commas() -> None:
    assert above(r"CN=q\,1,CN=a\,b,DC=example,DC=com") == {r"CN=a\,b,DC=example,DC=com", "DC=example,DC=com"}


def test_nothing_above_nothing() -> None:
    assert above() == set()
    assert above("DC=example,DC=com") == set()


def file(path: str) -> ExportedFile:
    return ExportedFile(path=path, rows=1, sha256="0" * 64)


def test_parents_come_first_whatever_type_they_are_of_and_references_last() -> None:
    types = [
        (
            "queue-manager",
            [file("queue-manager/part-005-000-00000.ldif"), file("queue-manager/part-900-000-00000.ldif")],
        ),
        ("queue", [file("queue/part-006-000-00001.ldif"), file("queue/part-006-000-00000.ldif")]),
    ]
    parents = Parents((file("parents/part-004-000-00000.ldif"), file("parents/part-002-000-00000.ldif")))
    assert load_order(types, parents) == (
        "parents/part-002-000-00000.ldif",
        "parents/part-004-000-00000.ldif",
        "queue-manager/part-005-000-00000.ldif",
        "queue/part-006-000-00000.ldif",
        "queue/part-006-000-00001.ldif",
        "queue-manager/part-900-000-00000.ldif",
    )


def test_entries_of_all_classes_hold_the_other_types_too() -> None:
    types = [
        ("queue", [file("queue/part-006-000-00000.ldif")]),
        ("ldap", [file("ldap/part-002-000-00000.ldif")]),
    ]
    assert load_order(types, Parents()) == ("ldap/part-002-000-00000.ldif",)
