"""Generated text: schema files, base tree, documentation; and the comparison with a server's schema."""

import base64
import subprocess
import sys
from pathlib import Path

import pytest
import table_pages
from generated_files import generated_files

from mqdssm.model.dn import DN
from mqdssm.tables import TABLES, ldif, places, schema, schema_attributes, schema_mqis
from mqdssm.tables.ldif import fold, format_attribute_definition, format_class_definition
from mqdssm.tables.schema_compare import compare, list_needed_attributes, parse_description
from mqdssm.wire.dtyp import SecurityDescriptor

PROJECT = Path(__file__).resolve().parents[3]
ATTRIBUTES = [format_attribute_definition(a) for a in schema_attributes.ALL]
CLASSES = [format_class_definition(c) for c in schema.CLASSES.values()]


@pytest.mark.slow
def test_generated_files_are_current():
    command = [sys.executable, str(PROJECT / ".ci" / "generate.py"), "--check"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_generation_is_the_same_every_time():
    assert dict(generated_files()) == dict(generated_files())


@pytest.mark.parametrize("name", generated_files())
def test_every_generated_file_says_what_made_it(name):
    first = generated_files()[name].splitlines()[0]
    assert first.startswith(("# made by `make schema`", "<!-- made by `make schema`"))


def test_definitions_are_written_as_rfc_4512_says():
    assert format_attribute_definition(schema.attribute("mSMQSites")) == (
        "( 1.2.840.113556.1.4.927 NAME 'mSMQSites' EQUALITY octetStringMatch ORDERING "
        "octetStringOrderingMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )"
    )
    assert format_class_definition(schema.find_object_class("msMQ-Group")) == (
        "( 1.2.840.113556.1.5.219 NAME 'msMQ-Group' SUP msmqADTop STRUCTURAL MUST ( cn $ member ) )"
    )
    group = format_class_definition(schema.find_object_class("group"))
    assert "MUST ( cn )" in group
    assert "MAY ( objectSid $ sAMAccountName $ groupType $ member" in group  # the server fills these in


def test_nothing_that_the_server_defines_is_defined_again():
    text = " ".join(ldif.format_openldap_schema().split())
    for attribute in schema_attributes.ALL:
        assert (f"NAME '{attribute.name}'" in text) is not attribute.builtin


def test_attributes_come_before_the_classes_that_use_them():
    text = ldif.format_openldap_schema()
    assert text.rindex("\nattributetype") < text.index("\nobjectclass")
    config = ldif.format_openldap_config()
    assert config.rindex("\nolcAttributeTypes") < config.index("\nolcObjectClasses")


def test_lines_are_short_and_continued_with_blanks():
    for text in (ldif.format_openldap_schema(), ldif.format_openldap_config(), ldif.format_base_tree()):
        for line in text.splitlines():
            assert len(line) <= 76 or line.startswith("#")
    unfolded = ldif.format_openldap_config().replace("\n ", "")
    assert f"olcAttributeTypes: {format_attribute_definition(schema.attribute('mSMQQuota'))}\n" in unfolded


@pytest.mark.parametrize(
    "value",
    ["plain", "", " leading", "trailing ", ":colon", "<less", "größe", "a\nb", "nul\0", "x" * 300, "\x7f"],
)
def test_folded_values_are_read_back(value):
    lines = fold("cn", value)
    assert all(len(line) <= 76 for line in lines)
    assert all(line.startswith(" ") for line in lines[1:])
    name, _, rest = (lines[0] + "".join(line[1:] for line in lines[1:])).partition(":")
    assert name == "cn"
    text = base64.b64decode(rest[2:]).decode() if rest.startswith(":") else rest[1:]
    assert text == value
    assert rest.startswith(":") is (value not in {"plain", "", "x" * 300})


def test_the_base_tree_has_what_the_events_need():
    root = "dc=Test,dc=example"
    text = ldif.format_base_tree(root)
    dns = [line[4:] for line in text.splitlines() if line.startswith("dn: ")]
    assert dns == [
        root,
        f"CN=Computers,{root}",
        f"CN=Users,{root}",
        f"CN=Configuration,{root}",
        f"CN=Sites,CN=Configuration,{root}",
        f"CN=Services,CN=Configuration,{root}",
        f"CN=MsmqServices,CN=Services,CN=Configuration,{root}",
    ]
    assert "dc: Test\n" in text
    enterprise = dict(ldif.list_base_tree_entries(root)[-1])
    assert enterprise["mSMQVersion"] == "200"
    descriptor = SecurityDescriptor.from_bytes(enterprise["nTSecurityDescriptor"])
    assert descriptor.to_sddl() == "O:BAG:BAD:(A;;WPCCRC;;;WD)(A;;RPWPCCDCLCRCWOWDSD;;;BA)"
    guids = [line for line in text.splitlines() if line.startswith("objectGUID:: ")]
    assert len(set(guids)) == len(dns)
    for wrong in ("", "ou=x", "dc="):
        with pytest.raises(ValueError, match="has to begin with DC="):
            ldif.format_base_tree(wrong)
    with pytest.raises(ValueError, match="dc"):
        ldif.format_base_tree("dc=x,nonsense")


@pytest.mark.spec("MS-MQDSSM 2.2.1")
def test_the_base_tree_is_where_the_places_are():
    root = DN.parse(r"dc=a\,b, dc=example")
    text = ldif.format_base_tree(r"dc=a\,b, dc=example")
    dns = [line[4:] for line in text.splitlines() if line.startswith("dn: ")]
    assert dns[0] == str(root)
    assert dns[-2:] == [str(places.services_dn(root)), str(places.enterprise_dn(root))]
    assert "dc: a,b\n" in text


def test_the_root_dse_names_the_contexts():
    assert ldif.format_root_dse("DC=example,DC=com").splitlines() == [
        "dn:",
        "rootDomainNamingContext: DC=example,DC=com",
        "defaultNamingContext: DC=example,DC=com",
        "configurationNamingContext: CN=Configuration,DC=example,DC=com",
        "schemaNamingContext: CN=Schema,CN=Configuration,DC=example,DC=com",
    ]


def test_every_page_has_its_rows():
    pages = table_pages.pages()
    for table in TABLES.values():
        page = pages[f"{table_pages.page_name(table)}.md"]
        for row in table.rows:
            assert f"| `{row.adm}` |" in page
        for name in table.unsupported:
            assert f"`{name}`" in page
    assert table_pages.page_name(TABLES[next(iter(TABLES))]) == "queue-manager"
    for attribute in schema_attributes.ALL:
        assert f"| `{attribute.name}` | {attribute.oid} |" in pages["schema.md"]


def test_tables_in_pages_have_as_many_cells_as_heads():
    for name, page in table_pages.pages().items():
        widths = {line.count("|") - line.count(r"\|") for line in page.splitlines() if line.startswith("| `")}
        assert len(widths) <= 2, name  # schema.md has two tables


# -- comparison ---------------------------------------------------------------------------------------


def test_our_own_schema_has_no_differences():
    assert compare(ATTRIBUTES, CLASSES) == []


def test_the_mapping_needs_what_its_rows_name():
    needed = list_needed_attributes()
    assert {"mSMQLabelEx", "objectGUID", "mSMQQueueNameExt"} <= needed["mSMQQueue"]
    assert "distinguishedName" not in needed["mSMQQueue"]
    assert {"dNSHostName", "mSMQDigests", "objectSid", "servicePrincipalName"} <= needed["computer"]
    assert needed["msMQ-Custom-Recipient"] == {"msMQ-Recipient-FormatName"}
    assert "mSMQQMID" in needed["mSMQSettings"]


def changed(definitions, name, old, new):
    """The definitions with one of them changed, or left out if `new` is None."""
    found = [d for d in definitions if f"NAME '{name}'" in d]
    assert len(found) == 1
    assert old in found[0]
    rest = [d for d in definitions if d is not found[0]]
    return rest if new is None else [*rest, found[0].replace(old, new)]


@pytest.mark.parametrize(
    ("name", "old", "new", "message", "serious"),
    [
        ("mSMQQuota", "", None, "attribute mSMQQuota: is missing", True),
        ("mSMQOwnerID", "", None, "attribute mSMQOwnerID: is missing", False),
        ("mSMQQuota", "1.4.919", "1.4.9190", "has OID 1.2.840.113556.1.4.9190, not", True),
        ("mSMQQuota", " SINGLE-VALUE", "", "attribute mSMQQuota: holds many values", True),
        ("mSMQSites", " )", " SINGLE-VALUE )", "attribute mSMQSites: holds one value", True),
        ("objectGUID", "EQUALITY octetStringMatch ", "", "attribute objectGUID: has no equality rule", True),
        ("mSMQLabel", "EQUALITY caseIgnoreMatch ", "", "attribute mSMQLabel: has no equality rule", False),
        ("mSMQQueueQuota", "121.1.27", "121.1.15", "attribute mSMQQueueQuota: has syntax 1.3.6.1.4", True),
        ("mSMQLabel", "121.1.15", "121.1.26", "attribute mSMQLabel: has syntax 1.3.6.1.4", False),
        ("mSMQQueueQuota", " )", " NO-USER-MODIFICATION )", "mSMQQueueQuota: may not be written", True),
        ("mSMQServices", " )", " NO-USER-MODIFICATION )", "mSMQServices: may not be written", True),
        ("member", " )", " SINGLE-VALUE )", "attribute member: holds one value", True),
        ("member", "121.1.12", "121.1.15", "attribute member: has syntax 1.3.6.1.4", True),
        ("cn", "2.5.4.3 ", "2.5.4.33 ", "attribute cn: has OID 2.5.4.33", True),
    ],
)
def test_a_different_attribute_is_reported(name, old, new, message, serious):
    found = compare(changed(ATTRIBUTES, name, old, new), CLASSES)
    assert len(found) == 1
    assert message in str(found[0])
    assert found[0].serious is serious


def test_a_server_without_matching_rules_is_not_blamed_for_them():
    without = [d.replace("EQUALITY octetStringMatch ", "") for d in ATTRIBUTES]
    assert compare(without, CLASSES, matching_rules=False) == []
    assert len(compare(without, CLASSES)) > 10


@pytest.mark.parametrize(
    ("name", "old", "new", "message", "serious"),
    [
        ("mSMQQueue", "", None, "class mSMQQueue: is missing", True),
        ("msMQ-Group", "", None, "class msMQ-Group: is missing", False),
        ("mSMQQueue", "1.5.161", "1.5.1610", "class mSMQQueue: has OID", True),
        ("mSMQQueue", " $ mSMQJournal ", " ", "class mSMQQueue: does not allow mSMQJournal", True),
        ("user", "mSMQDigests $ ", "", "class user: does not allow mSMQDigests", True),
        ("mSMQQueue", "STRUCTURAL", "ABSTRACT", "class mSMQQueue: is ABSTRACT, not STRUCTURAL", True),
        ("mSMQQueue", "STRUCTURAL", "AUXILIARY", "class mSMQQueue: is AUXILIARY, not STRUCTURAL", True),
        ("mSMQQueue", "SUP msmqADTop", "SUP device", "mSMQQueue: is derived from device, not from top", True),
        ("computer", "SUP user", "SUP top", "class computer: is derived from top, not from user", True),
        ("msMQ-Group", "SUP msmqADTop", "SUP group", "msMQ-Group: is derived from group", False),
        ("mSMQQueue", "MUST ( cn )", "MUST ( cn $ ou )", "class mSMQQueue: demands ou, which nobody", True),
        ("user", "MUST ( cn )", "MUST ( cn $ sn )", "class computer: demands sn, which nobody gives", True),
    ],
)
def test_a_different_class_is_reported(name, old, new, message, serious):
    found = compare(ATTRIBUTES, changed(CLASSES, name, old, new))
    (told,) = [one for one in found if message in str(one)]
    assert told.serious is serious


def test_what_active_directory_publishes_otherwise_is_the_same():
    """Syntaxes of its own, classes between ours and top, what only the system may write."""
    attributes = ATTRIBUTES
    for name, theirs in (("mSMQLabel", "905"), ("uSNChanged", "906"), ("nTSecurityDescriptor", "907")):
        ours = schema.attribute(name).syntax.ldap_oid
        attributes = changed(attributes, name, ours, f"1.2.840.113556.1.4.{theirs}")
    attributes = changed(attributes, "objectGUID", " )", " NO-USER-MODIFICATION )")
    attributes = changed(attributes, "whenCreated", " )", " NO-USER-MODIFICATION )")
    classes = changed(CLASSES, "user", "SUP msmqADTop", "SUP organizationalPerson")
    classes = changed(classes, "domainDNS", "SUP msmqADTop", "SUP domain")
    classes = changed(classes, "mSMQQueue", "SUP msmqADTop STRUCTURAL", "SUP top")
    demanded = "objectClass $ instanceType $ nTSecurityDescriptor $ objectCategory"
    optional = "cn $ objectGUID $ whenCreated $ whenChanged $ nTSecurityDescriptor"
    more = (
        f"( 2.5.6.0 NAME 'top' ABSTRACT MUST ( {demanded} ) MAY ( {optional} ) )",
        "( 2.5.6.7 NAME 'organizationalPerson' SUP top MUST cn MAY objectGUID )",
        "( 1.2.3 NAME 'domain' SUP top MUST dc )",
    )
    assert compare(attributes, [*classes, *more]) == []


def test_a_syntax_may_be_that_of_the_attribute_above():
    definition = "( 2.5.4.3 NAME ( 'cn' 'commonName' ) SUP name SINGLE-VALUE )"
    above = "( 2.5.4.41 NAME 'name' EQUALITY caseIgnoreMatch SYNTAX {}{{32768}} )"
    rest = [one for one in ATTRIBUTES if "NAME 'cn'" not in one]
    text, number = (f"1.3.6.1.4.1.1466.115.121.1.{one}" for one in (15, 27))
    assert compare([*rest, definition, above.format(text)], CLASSES) == []
    (found,) = compare([*rest, definition, above.format(number)], CLASSES)
    assert str(found) == f"attribute cn: has syntax {number}, not {text} (String(Unicode))"
    # one above itself, or above nothing that is there, says nothing
    loop = definition.replace("SUP name", "SUP cn")
    assert compare([*rest, loop], CLASSES) == []
    assert compare([*rest, definition], CLASSES) == []


def test_serious_differences_come_first():
    found = compare([], [])
    flags = [difference.serious for difference in found]
    assert flags == sorted(flags, reverse=True)
    assert {True, False} == set(flags)


def test_definitions_of_other_servers_are_read():
    text = (
        "( 2.5.4.4 NAME ( 'sn' 'surname' ) DESC 'RFC2256: last (family) name(s) MAY be' SUP name "
        "SYNTAX '1.3.6.1.4.1.1466.115.121.1.15'{64} SINGLE-VALUE X-ORDERED 'VALUES' )"
    )
    found = parse_description(text)
    assert (found.oid, found.names, found.single) == ("2.5.4.4", ("sn", "surname"), True)
    assert found.fields["SUP"] == ("name",)
    cls = parse_description("( 1.2 NAME 'c' SUP ( a $ b ) AUXILIARY MUST x MAY ( y $ z ) )")
    assert (cls.fields["SUP"], cls.fields["MUST"], cls.fields["MAY"]) == (("a", "b"), ("x",), ("y", "z"))


@pytest.mark.parametrize("text", ["", "(", "()", "( )", "1.2 NAME 'x'", "( 1.2 NAME 'x'", "' '"])
def test_text_that_is_no_definition_is_refused(text):
    with pytest.raises(ValueError, match="no schema definition"):
        parse_description(text)


def test_everything_of_ours_says_what_it_is() -> None:
    """Definitions of Microsoft have no description. People meet ours in servers and do not know them."""
    for definition in (*schema_mqis.ATTRIBUTES, *schema_mqis.CLASSES):
        assert len(definition.description) > len(definition.name)
        assert "'" not in definition.description  # would have to be escaped (RFC 4512 1.4)
    text = ldif.format_openldap_schema(ldif.REPLICATION)
    assert text.count(" DESC") == len(schema_mqis.ATTRIBUTES) + len(schema_mqis.CLASSES)
    assert all(f"'{one.description}'" in text for one in schema_mqis.ATTRIBUTES)  # on one line


def test_descriptions_are_read_by_every_server():
    """A quotation mark ends a description: slapd then does not start (RFC 4512, qdstring)."""
    assert not [
        one.name
        for one in (*schema_mqis.ATTRIBUTES, *schema_mqis.CLASSES)
        if set("'\\") & set(one.description)
    ]
