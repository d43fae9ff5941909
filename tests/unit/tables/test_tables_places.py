"""Distinguished names of [MS-MQDSSM] 2.2.1, search bases and LDAP result codes."""

import pytest

from mqdssm.model.dn import DN
from mqdssm.model.enums import DirectoryOperationResult as Result
from mqdssm.tables import ldap_results, places

ROOT = DN.parse("DC=example,DC=com")
CONFIGURATION = "CN=Configuration,DC=example,DC=com"


@pytest.mark.spec("MS-MQDSSM 2.2.1")
@pytest.mark.parametrize(
    ("dn", "expected"),
    [
        (places.queue_manager_dn(ROOT, "web01"), "CN=msmq,CN=web01,CN=Computers,DC=example,DC=com"),
        (places.computer_dn(ROOT, "web01"), "CN=web01,CN=Computers,DC=example,DC=com"),
        (places.site_dn(ROOT, "Berlin"), f"CN=Berlin,CN=Sites,{CONFIGURATION}"),
        (places.enterprise_dn(ROOT), f"CN=MsmqServices,CN=Services,{CONFIGURATION}"),
        (
            places.enterprise_dn(ROOT, DN.parse("CN=Configuration,DC=forest")),
            "CN=MsmqServices,CN=Services,CN=Configuration,DC=forest",
        ),
        (places.user_dn(ROOT, "anna"), "CN=anna,CN=Users,DC=example,DC=com"),
        (places.link_dn(ROOT, "0" * 64), f"CN={'0' * 64},CN=MsmqServices,CN=Services,{CONFIGURATION}"),
        (
            places.settings_dn(ROOT, "Berlin", "web01"),
            f"CN=MSMQ Settings,CN=web01,CN=Servers,CN=Berlin,CN=Sites,{CONFIGURATION}",
        ),
    ],
)
def test_objects_are_where_the_specification_says(dn, expected):
    assert str(dn) == expected  # canonical: no blanks after commas (M3)


def test_the_settings_have_their_parents():  # M6
    settings = places.settings_dn(ROOT, "Berlin", "web01")
    assert settings.parent == places.server_dn(ROOT, "Berlin", "web01")
    assert settings.parent.parent == places.servers_dn(ROOT, "Berlin")
    assert settings.parent.parent.parent == places.site_dn(ROOT, "Berlin")
    assert places.site_dn(ROOT, "Berlin").parent == places.sites_dn(ROOT)


def test_names_with_special_characters_stay_one_name():
    dn = places.queue_manager_dn(ROOT, "a,CN=b").child("CN", "#x,y")
    assert len(dn) == len(ROOT) + 4
    assert dn.name == "#x,y"
    assert dn.parent.parent.name == "a,CN=b"
    assert places.queue_manager_of(dn.parent.parent) == dn.parent


@pytest.mark.parametrize(
    ("ldap_class", "expected"),
    [  # M8
        ("mSMQConfiguration", "DC=example,DC=com"),
        ("mSMQQueue", "DC=example,DC=com"),
        ("user", "DC=example,DC=com"),
        ("mSMQEnterpriseSettings", f"CN=Services,{CONFIGURATION}"),
        ("site", f"CN=Sites,{CONFIGURATION}"),
        ("mSMQSiteLink", f"CN=MsmqServices,CN=Services,{CONFIGURATION}"),
    ],
)
def test_searches_begin_where_the_objects_are(ldap_class, expected):
    assert str(places.search_base(ldap_class, ROOT)) == expected


def test_the_configuration_may_be_elsewhere():
    other = DN.parse("CN=Configuration,DC=forest,DC=test")
    assert str(places.search_base("site", ROOT, other)) == "CN=Sites,CN=Configuration,DC=forest,DC=test"
    assert places.search_base("mSMQQueue", ROOT, other) == ROOT
    with pytest.raises(ValueError, match="no element is kept in objects of class 'group'"):
        places.search_base("group", ROOT)


@pytest.mark.spec("MS-MQDSSM 2.2.6")
@pytest.mark.parametrize(
    ("code", "result"),
    [
        (0, Result.SUCCESS),
        (32, Result.OBJECT_NOT_FOUND),
        (16, Result.ATTRIBUTE_NOT_FOUND),
        (68, Result.OBJECT_ALREADY_EXISTS),
    ],
)
def test_result_codes_with_a_result_of_their_own(code, result):
    assert ldap_results.result_of(code) is result


@pytest.mark.spec("MS-MQDSSM 2.2.6")
def test_every_other_code_is_a_generic_error():
    for code in set(range(-2, 130)) - {0, 16, 32, 68} | {4096, 2**31}:
        assert ldap_results.result_of(code) is Result.GENERIC_ERROR


def test_codes_have_names():
    assert ldap_results.name_of(32) == "noSuchObject"
    assert ldap_results.name_of(12345) == "result 12345"
