"""First objects of a directory server that has lost its directory, or whose directory is damaged."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.replication.live_servers import (
    Enterprise,
    pec_with_site,
    section_of_pec,
    with_controller,
)
from support.replication.queue_managers import guid_of, key_of, wait_until

from mqdssm.engines.replication.operations import ListObjects, ObjectsListed
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import MappingError
from mqdssm.model.guid import Guid
from mqdssm.model.propids import ObjectType
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.server.first_objects import build_first_objects, make_first_objects
from mqdssm.server.object_changes import RequestedChange
from mqdssm.testing.memory_store.store import MemoryStore


@pytest.fixture
def enterprise() -> Iterator[Enterprise]:
    made = Enterprise()
    yield made
    made.close()


def objects_of_pec() -> tuple[RequestedChange, ...]:
    return tuple(build_first_objects(section_of_pec(), bytes(key_of("PEC").public_keys())))


def enterprise_ids(enterprise: Enterprise, name: str) -> list[Guid | None]:
    listing = ListObjects(object_type=ObjectType.ENTERPRISE, partition_id=PEC_PARTITION_ID)
    listed = enterprise.servers[name].store.lookup(listing)
    assert isinstance(listed, ObjectsListed)
    return [read.identifier for read in listed.objects]


def test_a_pec_with_an_empty_directory_makes_no_second_enterprise(enterprise: Enterprise, tmp_path: Path):
    marker = tmp_path / "first-objects.made"
    pec_with_site(enterprise)
    with_controller(enterprise)
    assert make_first_objects(enterprise.servers["PEC"].server, objects_of_pec(), marker) == ""
    assert marker.exists()
    enterprise.servers["PEC"].stop()
    pec = enterprise.server("PEC", Role.PEC, "Site0", pinned_psc="PSC1", store=MemoryStore())
    problems = []

    def is_complete() -> bool:
        problems.append(make_first_objects(pec.server, objects_of_pec(), marker))
        return problems[-1] == ""

    assert not is_complete()
    assert "was made before" in problems[0]
    assert enterprise_ids(enterprise, "PEC") == []
    wait_until(is_complete)  # PSC1 sends the enterprise
    assert enterprise_ids(enterprise, "PEC") == enterprise_ids(enterprise, "PSC1") == [guid_of("enterprise")]
    enterprise.wait_equal("PEC", "PSC1", partition_id=PEC_PARTITION_ID)


def test_the_first_objects_are_made_once_and_the_marker_is_written_last(
    enterprise: Enterprise, tmp_path: Path
):
    marker = tmp_path / "first-objects.made"
    pec = enterprise.server("PEC", Role.PEC, "Site0")
    objects = objects_of_pec()
    assert make_first_objects(pec.server, objects[:1], tmp_path / "missing" / "marker") != ""
    assert make_first_objects(pec.server, objects, marker) == ""
    assert marker.exists()
    assert len(enterprise_ids(enterprise, "PEC")) == 1


def test_a_damaged_entry_is_a_problem_that_is_tried_again(
    enterprise: Enterprise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    marker = tmp_path / "first-objects.made"
    pec = enterprise.server("PEC", Role.PEC, "Site0")

    def damaged(_operation: object) -> object:
        raise MappingError("cn=x: mqisSequenceNumber is no number")

    with monkeypatch.context() as patched:
        patched.setattr(pec.server.store, "lookup", damaged)
        problem = make_first_objects(pec.server, objects_of_pec(), marker)
    assert "mqisSequenceNumber" in problem
    assert not marker.exists()
    wait_until(lambda: make_first_objects(pec.server, objects_of_pec(), marker) == "")
