"""Messages shown field by field, under the specification's names, whole and damaged."""

import json

import pytest
from support.replication.strategies import VECTORS, image_of
from support.wire.structures import EXAMPLES

from mqdssm.errors import DecodeError
from mqdssm.wire.mqdsrp import decode, show_message
from mqdssm.wire.show import show, to_json_value

NAMED = {vector["id"]: vector for vector in VECTORS}
HEADER_BYTES = 18


@pytest.mark.parametrize("name", list(NAMED))
def test_a_whole_message(name):
    shown = show_message(image_of(NAMED[name]))
    assert shown.error is None
    made = to_json_value("", shown.fields)
    assert made == NAMED[name]["fields"]
    assert json.dumps(made) == json.dumps(NAMED[name]["fields"]), "in the order of the wire"


def leaves(tree, path=()):
    if isinstance(tree, dict):
        for name, one in tree.items():
            yield from leaves(one, (*path, name))
    elif isinstance(tree, list) and path[-1] != "PropertyID":
        for number, one in enumerate(tree):
            yield from leaves(one, (*path, number))
    else:
        yield path, tree


@pytest.mark.parametrize("name", list(NAMED))
def test_of_a_cut_message_all_that_is_whole_is_shown(name):
    """One field more with each part that is there, never a wrong one."""
    image = image_of(NAMED[name])
    whole = list(leaves(to_json_value("", show_message(image).fields)))
    seen = 0
    for size in range(HEADER_BYTES, len(image)):
        shown = show_message(image[:size])
        with pytest.raises(DecodeError) as caught:
            decode(image[:size])
        assert str(shown.error) == str(caught.value)
        found = list(leaves(to_json_value("", shown.fields)))
        for (path, value), (known, expected) in zip(found, whole, strict=False):
            assert path == known
            assert value == expected or path[-1] == "PropertyID" or isinstance(expected, list)
        assert len(found) >= seen
        seen = len(found)
    missing = len(whole) - seen
    assert missing <= 1, "of the last cut, only the last field is missing"


def test_a_header_alone_is_shown_before_its_damage():
    image = bytearray(image_of(NAMED["psc-ack"]))
    image[17] = 9
    shown = show_message(bytes(image))
    header = {"Version": 0, "SiteID": "11111111-2222-3333-4455-66778899aabb"}
    assert to_json_value("", shown.fields) == {"BaseReplicationHeader": header}
    assert (shown.error.field, shown.error.offset) == ("Operation", 17)
    assert show_message(b"").fields == {}


@pytest.mark.parametrize(("layout", "made"), EXAMPLES, ids=str)
def test_any_layout_is_shown_as_it_is_decoded(layout, made):
    image = layout.encode(made)
    assert show(layout, image).error is None
    for wrong in (*(image[:size] for size in range(len(image))), image + b"\0"):
        try:
            layout.decode(wrong)
        except DecodeError as error:
            assert str(show(layout, wrong).error) == str(error)  # noqa: PT017  not all of them are refused
        else:
            assert show(layout, wrong).error is None
