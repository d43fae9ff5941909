"""Replication messages and GUIDs as values."""

import pickle
from uuid import UUID

import pytest

from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.messages import Command, DirectoryChange, Operation, ReplicationMessage
from mqdssm.model.propids import ObjectType, Propid

TEXT = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"


def change(**more):
    given = {"path_name": "web01\\q", "properties": ((Propid.Q_LABEL, "x"),)} | more
    return DirectoryChange(command=Command.UPDATE, partition_id=NULL_GUID, **given)


@pytest.mark.spec("MC-MQDSRP 2.2.4")
def test_a_change_names_its_object_in_one_way():
    for wrong in ({"path_name": None}, {"guid_identifier": NULL_GUID}):
        with pytest.raises(ValueError, match="one of them"):
            change(**wrong)
    assert change(path_name=None, guid_identifier=NULL_GUID).path_name is None


@pytest.mark.spec("MC-MQDSRP 2.2.4")
def test_a_change_has_properties_and_none_twice():
    with pytest.raises(ValueError, match="R19"):
        change(properties=())
    with pytest.raises(ValueError, match="R23"):
        change(properties=((Propid.Q_LABEL, "x"), (Propid.Q_LABEL, "y")))


@pytest.mark.spec("MC-MQDSRP 3.1.1.4")
def test_the_first_property_tells_the_type():
    made = change(properties=((Propid.D_SCOPE, 1), (Propid.Q_LABEL, "x")))
    assert made.object_type is ObjectType.DELETED_OBJECT
    assert change().object_type is ObjectType.QUEUE
    assert change(properties=((Propid.SET_NT4, 1),)).object_type is None
    assert (made.get(Propid.Q_LABEL), made.get(Propid.Q_QUOTA)) == ("x", None)


def test_values_can_be_copied_and_not_changed():
    made = change()
    assert pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(AttributeError):
        made.path_name = "other"


@pytest.mark.spec("MC-MQDSRP 2.2.5.1")
def test_each_operation_has_one_message():
    kinds = {kind.__name__: kind.operation for kind in ReplicationMessage.__subclasses__()}
    assert sorted(kinds.values()) == list(Operation) == list(range(8))


def test_guids():
    made = Guid.parse(f"{{{TEXT.upper()}}}")
    assert made == Guid.of(UUID(TEXT)) == bytes.fromhex("ae4f1df8ec7dd011a76500a0c91e6bf6")
    assert (str(made), made.uuid, repr(made)) == (TEXT, UUID(TEXT), f"Guid.parse('{TEXT}')")
    assert {made: 1}[Guid(bytes(made))] == 1
    assert pickle.loads(pickle.dumps(made)) == made
    for wrong in ("", TEXT[1:], f"{{{TEXT}", f" {TEXT}", TEXT.replace("-", "")):
        with pytest.raises(ValueError, match="is no GUID"):
            Guid.parse(wrong)
    with pytest.raises(ValueError, match="16 bytes"):
        Guid(bytes(15))
