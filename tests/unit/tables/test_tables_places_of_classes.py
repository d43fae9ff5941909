"""What a name alone tells of an object, where a server does not tell its class."""

import pytest

from mqdssm.tables.places import is_in_configuration, is_in_usual_place

CONFIGURATION = "CN=Configuration,DC=contoso,DC=test"


@pytest.mark.parametrize(
    ("ldap_class", "name", "expected"),
    [
        ("site", f"CN=Plant,CN=Sites,{CONFIGURATION}", True),
        ("site", f"cn=a\\,b,cn=sites,{CONFIGURATION}", True),
        ("site", f"CN=Subnets,CN=Sites,{CONFIGURATION}", False),
        ("site", f"CN=Inter-Site Transports,CN=Sites,{CONFIGURATION}", False),
        ("site", f"CN=Servers,CN=Plant,CN=Sites,{CONFIGURATION}", False),
        ("site", "CN=w1,CN=Computers,DC=contoso,DC=test", False),
        ("mSMQConfiguration", "CN=MSMQ,CN=w1,CN=Computers,DC=contoso,DC=test", True),
        ("mSMQConfiguration", "CN=w1,CN=Computers,DC=contoso,DC=test", False),
        ("mSMQQueue", "CN=msmq,CN=w1,CN=Computers,DC=contoso,DC=test", False),
        ("site", "DC=test", False),
        ("site", "no name at all", False),
    ],
)
def test_names_that_tell_a_class(ldap_class: str, name: str, expected: bool) -> None:
    assert is_in_usual_place(ldap_class, name) is expected


@pytest.mark.spec("MS-MQDSSM 3.1.6.15")
def test_where_classes_are() -> None:
    assert {
        name for name in ("site", "mSMQSiteLink", "mSMQEnterpriseSettings") if is_in_configuration(name)
    } == {
        "site",
        "mSMQSiteLink",
        "mSMQEnterpriseSettings",
    }
    assert not any(map(is_in_configuration, ("mSMQQueue", "mSMQConfiguration", "user", "computer", "group")))
