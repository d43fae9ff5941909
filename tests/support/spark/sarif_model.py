"""What SARIF 2.1.0 says of the objects that we write: by hand, since its JSON schema is not ours to give.

The schema is closed: what it does not know is refused. Types and forms are those of the standard (errata 01).
"""

import re
from typing import Any, Final, NamedTuple


class Member(NamedTuple):
    """A member of an object.

    Attributes:
        form: the type of its value; a text stands for the regular expression of a string, or for the kind of
            the object that it is (`_KNOWN`), ``bag`` for anything.
        is_list: of values of the form.
        is_required: it must be there.
        is_unique: no two values of the list are equal.
    """

    form: type | str
    is_list: bool = False
    is_required: bool = False
    is_unique: bool = False


_TEXT: Final = r"(?s).+"
_TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"  # 3.9
_LEVEL: Final = "none|note|warning|error"  # 3.27.10
_KNOWN: Final[dict[str, dict[str, Member]]] = {
    "sarifLog": {  # 3.13
        "$schema": Member(r"https://[!-~]+"),
        "version": Member(r"2\.1\.0", is_required=True),
        "runs": Member("run", is_list=True, is_required=True),
    },
    "run": {  # 3.14
        "tool": Member("tool", is_required=True),
        "invocations": Member("invocation", is_list=True),
        "results": Member("result", is_list=True),
        "columnKind": Member("utf16CodeUnits|unicodeCodePoints"),
        "properties": Member("bag"),
    },
    "tool": {"driver": Member("toolComponent", is_required=True)},  # 3.18
    "toolComponent": {  # 3.19
        "name": Member(_TEXT, is_required=True),
        "version": Member(_TEXT),
        "rules": Member("reportingDescriptor", is_list=True, is_unique=True),
    },
    "invocation": {  # 3.20
        "executionSuccessful": Member(bool, is_required=True),
        "startTimeUtc": Member(_TIME),
        "endTimeUtc": Member(_TIME),
        "toolConfigurationNotifications": Member("notification", is_list=True),
    },
    "notification": {  # 3.58
        "message": Member("message", is_required=True),
        "level": Member(_LEVEL),
        "associatedRule": Member("reportingDescriptorReference"),
    },
    "reportingDescriptorReference": {"id": Member(_TEXT, is_required=True)},  # 3.52: or an index, or a GUID
    "reportingDescriptor": {  # 3.49
        "id": Member(_TEXT, is_required=True),
        "shortDescription": Member("multiformatMessageString"),
        "help": Member("multiformatMessageString"),
        "defaultConfiguration": Member("reportingConfiguration"),
        "properties": Member("bag"),
    },
    "multiformatMessageString": {"text": Member(_TEXT, is_required=True)},  # 3.12
    "reportingConfiguration": {"level": Member(_LEVEL)},  # 3.50
    "result": {  # 3.27
        "message": Member("message", is_required=True),
        "ruleId": Member(_TEXT),
        "ruleIndex": Member(int),
        "level": Member(_LEVEL),
        "locations": Member("location", is_list=True, is_unique=True),
        "properties": Member("bag"),
    },
    "message": {"text": Member(_TEXT, is_required=True)},  # 3.11.8: or an id, which we do not write
    "location": {"logicalLocations": Member("logicalLocation", is_list=True, is_unique=True)},  # 3.28
    "logicalLocation": {  # 3.33
        "name": Member(_TEXT),
        "fullyQualifiedName": Member(_TEXT),
        "kind": Member(_TEXT),
    },
}
KINDS: Final = frozenset(_KNOWN)
"""The kinds of objects that we write."""


def kinds_in(log: dict[str, Any]) -> set[str]:
    """Hold a document against the standard; fails where it differs.

    Args:
        log: the document, read.

    Returns:
        The kinds of objects that are in it.
    """
    seen: set[str] = set()
    _check("sarifLog", log, seen)
    for run in log["runs"]:
        rules = [one["id"] for one in run["tool"]["driver"].get("rules", ())]
        for result in run.get("results", ()):
            assert rules[result["ruleIndex"]] == result["ruleId"]  # 3.27.6
    return seen


def _check(kind: str, found: Any, seen: set[str]) -> None:
    seen.add(kind)
    known = _KNOWN[kind]
    assert isinstance(found, dict), kind
    assert set(found) <= set(known), kind
    assert {name for name, member in known.items() if member.is_required} <= set(found), kind
    for name, value in found.items():
        member = known[name]
        assert isinstance(value, list) == member.is_list, (kind, name)
        values = value if member.is_list else [value]
        for one in values:
            _check_value(kind, name, member.form, one, seen)
        if member.is_unique:
            assert all(one not in values[:number] for number, one in enumerate(values)), (kind, name)


def _check_value(kind: str, name: str, form: type | str, value: Any, seen: set[str]) -> None:
    where = (kind, name, value)
    if form in _KNOWN:
        _check(str(form), value, seen)
    elif form == "bag":
        assert isinstance(value, dict), where  # 3.8
    elif isinstance(form, str):
        assert isinstance(value, str), where
        assert re.fullmatch(form, value), where
    else:
        assert type(value) is form, where
        assert not isinstance(value, int) or value >= -1, where
