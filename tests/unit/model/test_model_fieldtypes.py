"""What attributes accept and refuse at the edges: no second text of one value, nothing lost on the way."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from mqdssm.model import fieldtypes
from mqdssm.model.elements import ELEMENTS, Queue, User
from mqdssm.model.queuenames import EXTENSION_UNITS_MAX
from mqdssm.tables import schema
from mqdssm.wire.certificates import CERTIFICATE_BYTES_MAX


def test_a_sid_has_one_text() -> None:
    assert User(security_identifier="s-1-5-21-1-2-3-1001").security_identifier == "S-1-5-21-1-2-3-1001"
    for text in ("S-1-05-21", "S-1-5-021-1", "S-1-5-", "S-2-5-21", "S-1-5-21 "):
        with pytest.raises(ValueError, match="SecurityIdentifier"):
            User(security_identifier=text)


@pytest.mark.parametrize("text", ["{%s", "%s}", "(%s)", "%s ", "{{%s}}"])
def test_half_a_pair_of_braces_makes_no_guid(text: str) -> None:
    guid = "01234567-89ab-cdef-0123-456789abcdef"
    assert Queue.model_validate({"type": f"{{{guid}}}"}) == Queue(type=UUID(guid))
    with pytest.raises(ValueError, match="Type must be a GUID"):
        Queue.model_validate({"type": text % guid})


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [
        (datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC), -1),
        (datetime(1970, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC), 0),
        (datetime(2024, 2, 29, 12, tzinfo=timezone(timedelta(hours=5, minutes=30))), 1_709_188_200),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), fieldtypes.TIME_MAX),
        (datetime(1, 1, 1, tzinfo=UTC), fieldtypes.TIME_MIN),
    ],
)
def test_a_moment_is_the_second_it_lies_in(moment: datetime, seconds: int) -> None:
    assert Queue.model_validate({"create_time": moment}).create_time == seconds


def test_the_limits_of_the_model_are_those_of_the_schema() -> None:
    """Two layers need them, and neither may know the other: they must not drift apart (M28)."""
    assert schema.attribute("mSMQLabelEx").upper == fieldtypes.LABEL_UNITS_MAX
    assert schema.attribute("cn").upper == fieldtypes.COMMON_NAME_UNITS_MAX
    assert schema.attribute("description").upper == fieldtypes.DESCRIPTION_UNITS_MAX
    assert schema.attribute("mSMQSignCertificates").upper == fieldtypes.CERTIFICATES_BYTES_MAX
    assert schema.attribute("mSMQDigests").upper == fieldtypes.DIGEST_BYTES
    assert schema.attribute("mSMQQueueNameExt").upper == EXTENSION_UNITS_MAX
    assert schema.attribute("mSMQSignCertificates").upper == CERTIFICATE_BYTES_MAX


def test_both_names_of_every_field_are_accepted_and_neither_is_the_only_one() -> None:
    """An alias that type checkers see would be the only name they accept (see model.base.adm)."""
    for element in ELEMENTS.values():
        for name, field in element.model_fields.items():
            assert field.alias is None
            assert (field.validation_alias, field.serialization_alias) == (element.adm_name(name),) * 2
    assert Queue.model_validate({"Label": "x"}) == Queue(label="x")
    assert Queue(label="x").to_json() == '{"Label":"x"}'
    assert set(Queue.model_json_schema()["properties"]) == set(Queue.adm_names())
