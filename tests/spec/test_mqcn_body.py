"""Notification Bodies: what the grammar of [MS-MQCN] 2.2.5 takes, and what it does not."""

from dataclasses import replace

import pytest
from support.notification.strategies import IMAGES

from mqdssm.errors import DecodeError
from mqdssm.model.guid import Guid
from mqdssm.model.notification import NotificationBody, NotificationEvent
from mqdssm.wire.mqcn import BODY_BYTES_MAX, decode, encode

QUEUE_TEXT = "0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0"
QUEUE = Guid.parse(QUEUE_TEXT)
CHANGED = NotificationBody(event=NotificationEvent.CHANGE_QUEUE, object_guid=QUEUE, domain_controller="DC01")


def text(event="2", guid=QUEUE_TEXT, name="DC01", blank=""):
    """A body by the grammar of 2.2.5, as its example prints it, without spaces between the elements."""
    return (
        f"<Notification><Event>{event}</Event><ObjectGuid>{guid}</ObjectGuid{blank}>"
        f"<DomainController>{name}</DomainController></Notification>"
    )


def wrapped(body_text):
    return b"\x02\x01" + body_text.encode("utf-16-le", "surrogatepass")


@pytest.mark.spec("MS-MQCN 2.2.5")
def test_both_spellings_of_the_end_tag():
    """Decision C1: accept both, write without the blank."""
    assert wrapped(text(blank="")) == IMAGES["queue-changed"]
    assert decode(wrapped(text(blank=" "))) == CHANGED
    with pytest.raises(DecodeError, match=r"ObjectGuid at offset .*: must end with </ObjectGuid>"):
        decode(wrapped(text(blank="  ")))


@pytest.mark.spec("MS-MQCN 2.2.5")
@pytest.mark.parametrize(
    ("guid", "allowed"),
    [
        (str(QUEUE), True),
        (str(QUEUE).upper(), True),
        (f"{{{QUEUE}}}", False),
        ("0f1e2d3c-4b5a-6978-a5b4c3d2e1f0", False),  # four groups, as the grammar is printed
        (str(QUEUE).replace("-", ""), False),
        (str(QUEUE)[:-1], False),
        (f"{QUEUE}0", False),
        (str(QUEUE).replace("0", "\uff10"), False),
        (str(QUEUE).replace("f", "g"), False),
    ],
)
def test_the_guid_of_an_object(guid, allowed):
    """Decision C7: 8-4-4-4-12 hexadecimal digits in either case; no braces."""
    if allowed:
        assert decode(wrapped(text(guid=guid))).object_guid == QUEUE
        return
    with pytest.raises(DecodeError) as caught:
        decode(wrapped(text(guid=guid)))
    begin = 2 + 2 * len("<Notification><Event>2</Event><ObjectGuid>")
    assert (caught.value.section, caught.value.field) == ("[MS-MQCN] 2.2.5", "ObjectGuid")
    assert caught.value.offset == begin


@pytest.mark.spec("MS-MQCN 2.2.5")
@pytest.mark.parametrize("event", ["0", "5", "", "11", " 1", "\uff11", "\u0661", "one", "&#49;"])
def test_other_events(event):
    with pytest.raises(DecodeError) as caught:
        decode(wrapped(text(event=event)))
    assert caught.value.field == "Event"


@pytest.mark.spec("MS-MQCN 2.2.5")
@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("x", True),
        ("x" * 256, True),
        ("\\\\dc01.example.com", True),
        ("!\"#$%'()*+,-./09:;=?@AZ[\\]^_`az{|}~", True),
        ("", False),
        ("x" * 257, False),
        ("x" * 1500, False),
        ("dc 01", False),
        ("dc\x7f", False),
        ("dc\n", False),
        ("dc\xe9", False),
        ("dc\ud800", False),
        ("dc&amp;", False),  # decision C10
        ("dc>", False),
        ("dc<b/>", False),
        ("<![CDATA[dc]]>", False),
    ],
)
def test_the_name_of_a_directory_server(name, allowed):
    """1 to 256 VCHARs, and none that XML would take for markup (decision C10)."""
    if allowed:
        made = decode(wrapped(text(name=name)))
        assert made.domain_controller == name
        assert decode(encode(made)) == made
        return
    with pytest.raises(DecodeError) as caught:
        decode(wrapped(text(name=name)))
    assert caught.value.field == "DomainController"
    if "<" in name:
        return
    with pytest.raises(ValueError, match="name of a directory server"):
        replace(CHANGED, domain_controller=name)


HOSTILE = {
    "doctype": '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + text(),
    "external": '<!DOCTYPE x SYSTEM "http://192.0.2.1/x.dtd">' + text(),
    "declaration": '<?xml version="1.0"?>' + text(),
    "byte order mark": "\ufeff" + text(),
    "comment": "<!-- -->" + text(),
    "comment within": text().replace("<ObjectGuid>", "<!-- --><ObjectGuid>"),
    "attribute": text().replace("<Event>", '<Event a="1">'),
    "name space": text().replace("<Notification>", '<Notification xmlns="x">'),
    "small letters": text().lower(),
    "blank before": " " + text(),
    "line breaks": text().replace("><", ">\n<"),
    "other order": text().replace("<Event>2</Event>", "").replace("<Dom", "<Event>2</Event><Dom"),
    "twice": text() + text(),
    "another element": text().replace("</Notification>", "<X>1</X></Notification>"),
    "no end": text().removesuffix("</Notification>"),
    "NUL behind, and more": text() + "\0" + " ",
    "nothing": "",
    "no body": "<Notification></Notification>",
}


@pytest.mark.spec("MS-MQCN 2.2.5")
@pytest.mark.spec("MS-MQCN 5.1")
@pytest.mark.parametrize("name", list(HOSTILE))
def test_the_grammar_is_strict(name):
    """Decision C6: nothing that only a parser of XML would take."""
    with pytest.raises(DecodeError) as caught:
        decode(wrapped(HOSTILE[name]))
    assert caught.value.section == "[MS-MQCN] 2.2.5"


@pytest.mark.spec("MS-MQCN 2.2.5")
def test_other_encodings():
    for encoding in ("ascii", "utf-16-be", "utf-16", "utf-32-le"):
        with pytest.raises(DecodeError):
            decode(b"\x02\x01" + text().encode(encoding))


@pytest.mark.spec("MS-MQCN 5.1")
def test_a_body_has_4_kib_at_most():
    """Decision C6; what is longer is not looked at."""
    longest = wrapped(text(name="x" * 256, blank=" ")) + b"\0"
    assert len(longest) < 1024
    decode(longest)
    with pytest.raises(DecodeError, match=rf"has more than {BODY_BYTES_MAX} bytes") as caught:
        decode(longest + bytes(BODY_BYTES_MAX))
    assert caught.value.offset == 0
    with pytest.raises(DecodeError, match="bytes left over"):
        decode(longest + bytes(BODY_BYTES_MAX - len(longest)))
