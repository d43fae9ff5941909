"""What is added once more without its GUID, and what is not (M37): answers of Windows, which Samba lacks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from mqdssm.directory.filters import LdapFilter, to_text
from mqdssm.directory.identities import Identities
from mqdssm.directory.profile import Naming
from mqdssm.directory.profiles.active_directory import ActiveDirectory
from mqdssm.errors import DirectoryError, GenericDirectoryError, ObjectAlreadyExists, ObjectNotFound
from mqdssm.model.dn import DN

ROOT = DN.parse("DC=contoso,DC=test")
CONFIGURATION = ROOT.child("CN", "Configuration")


class Keeping(ActiveDirectory):
    """A domain that says that it takes GUIDs."""

    def keeps_guids(self, session: Any) -> bool:
        return True


class Session:
    """Answers adds as told."""

    def __init__(self, *answers: DirectoryError | None) -> None:
        self.profile = Keeping()
        self.naming = Naming(ROOT, CONFIGURATION, CONFIGURATION, ROOT, ROOT, (CONFIGURATION,))
        self.answers = list(answers)
        self.added: list[Mapping[str, Sequence[bytes]]] = []
        self.asked: list[str] = []

    def find(self, base: str, wanted: LdapFilter, attributes: Sequence[str]) -> Iterator[Any]:
        self.asked.append(f"{base} {to_text(wanted)}")
        return iter(())

    def add(self, dn: str, attributes: Mapping[str, Sequence[bytes]]) -> None:
        self.added.append(attributes)
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer


def create(session: Any, guid: UUID | None) -> tuple[Identities, UUID | None]:
    made = Identities(session)
    return made, made.create("CN=q", "mSMQQueue", {"mSMQLabelEx": [b"x"]}, guid)


@pytest.mark.parametrize(
    "error",
    [ObjectAlreadyExists("there", ldap_code=19), ObjectNotFound("no parent", ldap_code=53)],
    ids=["exists", "no parent"],
)
def test_what_is_not_about_the_guid_is_not_tried_again(error: DirectoryError) -> None:
    session = Session(error)
    with pytest.raises(type(error)) as caught:
        create(session, uuid4())
    assert caught.value is error
    assert len(session.added) == 1


def test_other_errors_are_not_tried_again() -> None:
    session = Session(GenericDirectoryError("busy", ldap_code=51))
    with pytest.raises(GenericDirectoryError, match="busy"):
        create(session, uuid4())
    assert len(session.added) == 1


def test_a_guid_that_is_refused_is_remembered() -> None:
    session, guid = Session(GenericDirectoryError("no", ldap_code=50), None), uuid4()
    made, identifier = create(session, guid)
    assert identifier is None
    first, second = session.added
    assert (first["objectGUID"], second["mSMQOwnerID"]) == ((guid.bytes_le,), (guid.bytes_le,))
    assert "objectGUID" not in second
    assert not made.keeps_guids


def test_two_refusals_say_nothing_about_guids() -> None:
    """It was not the GUID: the next object may keep its own."""
    session = Session(
        GenericDirectoryError("no", ldap_code=50), GenericDirectoryError("still no", ldap_code=50)
    )
    made = Identities(session)  # type: ignore[arg-type]
    with pytest.raises(GenericDirectoryError, match="still no"):
        made.create("CN=q", "mSMQQueue", {}, uuid4())
    assert made.keeps_guids


def test_a_guid_is_looked_for_wherever_objects_are() -> None:
    session, guid = Session(None), uuid4()
    assert create(session, guid)[1] == guid
    assert [one.split(" ")[0] for one in session.asked] == [str(ROOT), str(CONFIGURATION)]
    assert all("(objectGUID=" in one and "(mSMQOwnerID=" in one for one in session.asked)


def test_a_new_object_is_not_looked_for() -> None:
    session = Session(None)
    assert create(session, None)[1] is None
    assert session.asked == []
