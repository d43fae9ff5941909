"""Hypothesis strategies for the attributes of the elements of the abstract model."""

from typing import Any

from hypothesis import strategies as st

from mqdssm.model.base import DirectoryObject
from mqdssm.model.enums import DirectoryServerType, OperatingSystemType, PrivacyLevel

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
UNSIGNED = st.integers(0, 0xFFFFFFFF)
BYTES = st.binary(max_size=60)
GUIDS = st.lists(st.uuids(), max_size=3).map(tuple)
DNS = st.sampled_from(["CN=a,DC=b", r"CN=a\,b\ ,DC=ü", "OU=x"])
SIDS = st.lists(UNSIGNED, max_size=15).map(lambda numbers: "-".join(["S-1-5", *map(str, numbers)]))
PATHS = TEXTS.filter(bool).map("web01\\{}".format).filter(lambda path: "$" not in path)
TIMES = st.integers(-62_135_596_800, 253_402_300_799)

BY_ATTRIBUTE: dict[str, st.SearchStrategy[Any]] = {
    "PrivacyLevel": st.sampled_from(PrivacyLevel),
    "OperatingSystemType": st.sampled_from(OperatingSystemType),
    "DirectoryServerType": st.sampled_from(DirectoryServerType),
    "SecurityIdentifier": SIDS,
    "CertificateDigestList": st.lists(st.binary(min_size=16, max_size=16), max_size=3).map(tuple),
    "FullPath": DNS,
    "Pathname": PATHS,
    "QualifiedPathname": PATHS | st.just(""),
    "MulticastAddress": st.sampled_from(["", "224.0.0.1:0", "239.255.255.255:65535"]),
    "BasePriority": st.integers(-32768, 32767),
    "ActualCost": st.integers(1, 999_999),
    "Name": TEXTS.filter(bool),
    "ComputerName": TEXTS.filter(bool),
    "Identifier": st.uuids(),
    "Type": st.uuids(),
    "Site1Identifier": st.uuids(),
    "Site2Identifier": st.uuids(),
    "CreateTime": TIMES,
    "ModifyTime": TIMES,
    "Security": BYTES,
    "Clustered": st.booleans(),
}
BY_DEFAULT: dict[type, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: UNSIGNED,
    str: TEXTS,
    bytes: BYTES,
    tuple: GUIDS,
}


def value_of(element: type[DirectoryObject], adm: str) -> st.SearchStrategy[Any]:
    """A value that an attribute accepts."""
    by_default = BY_DEFAULT.get(type(getattr(element(), element.field_name(adm))), TEXTS)
    return BY_ATTRIBUTE.get(adm, by_default)


def values_of(element: type[DirectoryObject]) -> st.SearchStrategy[dict[str, Any]]:
    """Values of some attributes, by field."""
    fields = {element.field_name(adm): value_of(element, adm) for adm in element.adm_names()}
    return st.fixed_dictionaries({}, optional=fields)
