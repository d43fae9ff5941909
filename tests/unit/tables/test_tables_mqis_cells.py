"""Cells of MQIS tables: what is a value, and what is said of what is none."""

from base64 import b64encode
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.model.propids import INTEGERS, Variant
from mqdssm.pipeline.mqis.cells import build_cell_maker
from mqdssm.samples import elements
from mqdssm.samples.mqis import SampleRowMaker
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.samples.queues import Queues
from mqdssm.tables.mqis import MQIS_TABLES
from mqdssm.tables.mqis_cells import CellError, convert_cell, value_of
from mqdssm.wire.sid import Sid

GUID = "01234567-89ab-cdef-0123-456789abcdef"
SAMPLE = EnterprisePlan(sites=2, machines=6, queues=30, users=3, seed=3)
OBJECTS = {
    "Enterprise": [elements.make_enterprise(SAMPLE)],
    "Site": [elements.make_site(SAMPLE, number) for number in range(2)],
    "RoutingLink": [elements.make_link(SAMPLE, *ends) for ends in SAMPLE.list_links()],
    "Machine": [elements.make_machine(SAMPLE, number).manager for number in range(6)],
    "Queue": [queue for number in range(6) for queue in Queues(SAMPLE, number)],
    "User": [elements.make_user(SAMPLE, number) for number in range(3)],
}


def column(name):
    table = next(table for table in MQIS_TABLES.values() if any(one.name == name for one in table.columns))
    return table.column(name)


@pytest.mark.parametrize("name", OBJECTS)
def test_what_samples_write_is_read_back(name):
    table = MQIS_TABLES[name]
    for element in OBJECTS[name]:
        for propid, written in SampleRowMaker(table).make_row(element).items():
            one = table.column(propid)
            if one.row is None or one.bits or written is None:
                continue
            value = value_of(one, build_cell_maker(one)(written) or "")
            wanted = getattr(element, one.row.field)
            if one.first:
                assert value == wanted[:1]
            elif one.codes is None:
                assert value == wanted
            else:  # enumerations are named as the specification does
                assert type(element).model_validate({one.adm: value}).__dict__[one.row.field] == wanted


@pytest.mark.parametrize(
    ("name", "cell", "value"),
    [
        ("PROPID_Q_QUOTA", "4294967295", 2**32 - 1),
        ("PROPID_Q_QUOTA", "-1", 2**32 - 1),
        ("PROPID_Q_QUOTA", "-2147483648", 2**31),
        ("PROPID_S_INTERVAL1", "-1", 2**16 - 1),
        ("PROPID_Q_BASEPRIORITY", "-32768", -32768),
        ("PROPID_Q_QUOTA", " 7 ", 7),
        ("PROPID_Q_TYPE", "{" + GUID.upper() + "}", UUID(GUID)),
        ("PROPID_QM_OUTFRS", f'["{GUID}"]', (UUID(GUID),)),
        ("PROPID_QM_SITE_ID", GUID, (UUID(GUID),)),
        ("PROPID_U_DIGEST", f'["{GUID}"]', (UUID(GUID).bytes_le,)),
        ("PROPID_U_SID", b64encode(bytes(Sid("S-1-5-21-1-2-3-4"))).decode(), "S-1-5-21-1-2-3-4"),
        ("PROPID_Q_JOURNAL", "1", True),
        ("PROPID_E_VERSION", "200", False),
        ("PROPID_Q_LABEL", "", ""),
    ],
)
def test_values(name, cell, value):
    assert value_of(column(name), cell) == value


@pytest.mark.parametrize(
    ("name", "cell", "words"),
    [
        ("PROPID_Q_QUOTA", "1e3", "'1e3' is no whole number"),
        ("PROPID_Q_QUOTA", "1_0", "is no whole number"),
        ("PROPID_Q_QUOTA", "4294967296", "does not fit VT_UI4: 0 to 4294967295"),
        ("PROPID_Q_QUOTA", "-2147483649", "does not fit VT_UI4"),
        ("PROPID_Q_QUOTA", "9" * 400, "is no whole number"),
        ("PROPID_Q_CREATE_TIME", "0000-00-00", "is no whole number"),
        ("PROPID_Q_CREATE_TIME", "-62167219200", "does not fit VT_I4"),
        ("PROPID_Q_TYPE", "no GUID", "'no GUID' is no GUID"),
        ("PROPID_Q_TYPE", "{" + GUID, "is no GUID"),
        ("PROPID_Q_JOURNAL", "7", "7 is none of 0, 1"),
        ("PROPID_Q_SECURITY", "AAA", "is no base64"),
        ("PROPID_QM_OUTFRS", GUID, "is no JSON array"),
        ("PROPID_QM_OUTFRS", "[1]", "is no JSON array of texts"),
        ("PROPID_QM_OUTFRS", '["x"]', "'x' is no GUID"),
        ("PROPID_QM_OUTFRS", "[" * 100_000, "is no JSON array"),
        ("PROPID_U_SID", "AAAA", "is no SID"),
    ],
)
def test_what_is_none_is_told(name, cell, words):
    with pytest.raises(CellError) as caught:
        value_of(column(name), cell)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 300


@given(
    st.sampled_from(
        sorted({one.variant for table in MQIS_TABLES.values() for one in table.columns} & set(INTEGERS))
    ),
    st.integers(-(2**70), 2**70),
)
def test_integers_are_in_the_range_of_their_variant(variant, number):
    one = next(
        one for table in MQIS_TABLES.values() for one in table.columns if one.variant is Variant(variant)
    )
    low, high = INTEGERS[Variant(variant)]
    try:
        value = convert_cell(one, str(number))
    except CellError:
        assert not low <= number <= high
    else:
        assert low <= value <= high
        assert (value - number) % (high - low + 1) == 0
