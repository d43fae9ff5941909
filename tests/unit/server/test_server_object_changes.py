"""Changes through a directory server: each attribute arrives as it was given, or is refused by name."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.directory.element_strategies import value_of
from support.store.property_strategies import DESCRIPTOR
from support.store.stored_properties import properties_of

from mqdssm.engines.replication import operations as ops
from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Enterprise, Queue, QueueManager, RoutingLink, Site, element_of
from mqdssm.model.guid import Guid
from mqdssm.server.control_protocol import ObjectChangeRequest
from mqdssm.server.object_changes import RequestedChange, change_of
from mqdssm.tables import TABLES
from mqdssm.tables.properties import entry_of, references_of
from mqdssm.tables.row import Access

OBJECT, SITE = UUID(int=1), UUID(int=2)
ELEMENTS: tuple[type[DirectoryObject], ...] = (Queue, QueueManager, RoutingLink, Site, Enterprise)
STORED = Access.CREATE | Access.WRITE
CARRIED = {
    "Queue": "Authentication BasePriority JournalQuota Journaling Label PrivacyLevel Quota Security "
    "Transactional Type",
    "QueueManager": "ForeignSystem InRoutingServerIdentifierList JournalQuota OperatingSystemType "
    "OutRoutingServerIdentifierList PublicEncryptionKeyList QueueManagerQuota QueueManagerVersion Security "
    "SiteIdentifierList",
    "RoutingLink": "ActualCost Site1Identifier Site2Identifier",
    "Site": "InterSiteReplicationInterval IntraSiteReplicationInterval Security",
    "Enterprise": "DefaultTimeToLive OldDirectory Security WeakenedSecurity",
}
"""Attributes that a directory server replicates."""
ACCEPTED: dict[str, st.SearchStrategy[Any]] = {
    "Security": st.just(DESCRIPTOR),
    "SiteIdentifierList": st.tuples(st.uuids()),
    "InterSiteReplicationInterval": st.integers(0, 0xFFFF),
    "IntraSiteReplicationInterval": st.integers(0, 0xFFFF),
}
"""Values that the property carries; of other attributes each value."""


def look_up(operation: ops.Operation) -> ops.Result:
    """A directory in which every object exists."""
    assert isinstance(operation, ops.ReadObject | ops.ListObjects)
    read = ops.ObjectRead(status=0, identifier=Guid.of(OBJECT), partition_id=Guid.of(SITE), properties=())
    return read if isinstance(operation, ops.ReadObject) else ops.ObjectsListed(objects=(read,))


def change(command: str, element: str, /, **attributes: Any) -> RequestedChange:
    """What a client's request becomes; attributes as in JSON."""
    return change_of(
        ObjectChangeRequest(command=command, element=element, attributes=attributes),  # type: ignore[arg-type]
        look_up,
    )


def given_value(element: type[DirectoryObject], adm: str, value: Any) -> RequestedChange:
    """The change of an attribute by a client: a creation if no write changes it."""
    fields = {element.field_name(adm): value}
    attributes = json.loads(element(**fields).model_dump_json(by_alias=True, exclude_unset=True))
    if Access.WRITE not in TABLES[element].row(adm).access:
        return change("create", element.element_name, Pathname="web01\\in", **attributes)
    key = {} if element is Enterprise else {"Identifier": str(OBJECT)}
    return change("write", element.element_name, **key, **attributes)


def stored_value(element: type[DirectoryObject], adm: str, requested: RequestedChange) -> Any:
    """The attribute that the adapter reads where a replica has stored the change."""
    row = TABLES[element].row(adm)
    entry = entry_of(requested.object_type, requested.properties)
    kept = properties_of(requested.object_type, entry, dict(requested.properties))
    assert kept == dict(requested.properties)
    for reference, guids in references_of(requested.object_type, kept.items()):
        if reference.ldap == row.ldap[0]:
            return tuple(guid.uuid for guid in guids) if row.multi else guids[0].uuid
    raws = entry.get(row.ldap[0])
    return row.decode(raws) if raws else row.default


WRITABLE = [
    pytest.param(element, row.adm, id=f"{element.element_name}.{row.adm}")
    for element in ELEMENTS
    for row in TABLES[element].rows
    if row.access & STORED
]


@pytest.mark.spec("MC-MQDSRP 3.2.7.8")
@pytest.mark.parametrize(("element", "adm"), WRITABLE)
@given(data=st.data())
@settings(max_examples=15)
def test_an_attribute_is_stored_as_it_was_given_or_refused_by_name(element, adm, data):
    is_carried = adm in CARRIED[element.element_name].split()
    is_acceptable = is_carried and data.draw(st.booleans())
    value = data.draw(ACCEPTED.get(adm, value_of(element, adm)) if is_acceptable else value_of(element, adm))
    if is_acceptable:
        assert stored_value(element, adm, given_value(element, adm, value)) == value
        return
    try:
        requested = given_value(element, adm, value)
    except ValueError as error:
        refusal = str(error)
    else:
        assert is_carried
        assert stored_value(element, adm, requested) == value
        return
    assert f"{element.element_name}.{adm}" in refusal


@pytest.mark.parametrize("element", ELEMENTS)
def test_what_servers_compute_is_refused_by_name(element):
    for row in TABLES[element].rows:
        if not row.access & STORED and row.adm not in {"Identifier", "FullPath", "DirectoryPath"}:
            example = {"text": "a", "GUID": str(OBJECT), "boolean": True}.get(row.kind, 5)
            example = "web01\\in" if row.adm.endswith("athname") else example
            key = {} if element is Enterprise else {"Identifier": str(OBJECT)}
            with pytest.raises(ValueError, match=rf"{row.adm}|which {element.element_name}"):
                change("write", element.element_name, **key, **{row.adm: example})


@pytest.mark.parametrize(
    ("element", "attributes"),
    [
        ("Queue", {"Label": ""}),
        ("QueueManager", {"QueueManagerVersion": ""}),
        ("QueueManager", {"PublicEncryptionKeyList": ""}),
        ("QueueManager", {"OutRoutingServerIdentifierList": []}),
    ],
)
def test_a_value_can_be_removed(element, attributes):
    ((adm, _),) = attributes.items()
    requested = change("write", element, Identifier=str(OBJECT), **attributes)
    assert [value for _, value in requested.properties] in ([""], [b""], [()])
    kind = element_of(element)
    assert stored_value(kind, adm, requested) == getattr(kind(), kind.field_name(adm))


@pytest.mark.parametrize(
    ("element", "attributes", "problem"),
    [
        ("QueueManager", {"SiteIdentifierList": [str(OBJECT), str(SITE)]}, "SiteIdentifierList .*one site"),
        ("QueueManager", {"SiteIdentifierList": []}, "SiteIdentifierList .*one site"),
        ("QueueManager", {"ModifyTime": 5}, "QueueManager.ModifyTime cannot be changed"),
        ("QueueManager", {"DirectoryServerType": 8}, "QueueManager.DirectoryServerType cannot be changed"),
        ("QueueManager", {"PublicSigningKeyList": ""}, "QueueManager.PublicSigningKeyList cannot be changed"),
        ("Queue", {"Transactional": True}, "Queue.Transactional cannot be changed"),
        ("Queue", {"Security": "AAAA"}, "Queue.Security"),
        ("Queue", {"Security": None}, "Security"),
        ("Site", {"InterSiteReplicationInterval": 65536}, "Site.InterSiteReplicationInterval"),
    ],
)
def test_a_value_that_would_be_lost_is_refused_by_name(element, attributes, problem):
    with pytest.raises(ValueError, match=problem):
        change("write", element, Identifier=str(OBJECT), **attributes)


def test_the_name_of_an_enterprise_is_refused():
    with pytest.raises(ValueError, match=r"Enterprise\.Name cannot be changed"):
        change("write", "Enterprise", Name="Contoso", DefaultTimeToLive=7)
