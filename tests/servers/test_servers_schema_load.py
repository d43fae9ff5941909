"""The generated files in a real slapd: both forms load, say the same, and hold what they should."""

import shutil
import subprocess
from pathlib import Path

import pytest

from mqdssm.tables import schema_attributes, schema_classes
from mqdssm.tables.schema_compare import compare, parse_description

LDIF = Path(__file__).resolve().parents[2] / "ldif"
ROOT = "DC=example,DC=com"
CORE = Path("/etc/ldap/schema")
MODULES = "/usr/lib/ldap"


def run(*command, standard_input=None):
    """Run a program of slapd; a failure shows what it said."""
    program = shutil.which(command[0], path="/usr/sbin:/usr/bin:/sbin:/bin")
    assert program, f"{command[0]} is not installed: apt install slapd ldap-utils"
    done = subprocess.run(
        [program, *map(str, command[1:])], input=standard_input, capture_output=True, check=False, timeout=60
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stderr.decode()}")
    return done.stdout.decode()


def config_ldif(folder):
    """The configuration of a server, as Debian's own: everything below cn=config."""
    return f"""dn: cn=config
objectClass: olcGlobal
cn: config

dn: cn=module{{0}},cn=config
objectClass: olcModuleList
cn: module{{0}}
olcModulePath: {MODULES}
olcModuleLoad: back_mdb

dn: cn=schema,cn=config
objectClass: olcSchemaConfig
cn: schema

include: file://{CORE}/core.ldif

include: file://{LDIF}/msmq.ldif

dn: olcDatabase={{1}}mdb,cn=config
objectClass: olcMdbConfig
olcDatabase: {{1}}mdb
olcSuffix: {ROOT}
olcDbDirectory: {folder}
olcDbIndex: objectGUID,cn eq
"""


@pytest.fixture
def config(tmp_path):
    """A cn=config folder loaded with msmq.ldif by slapadd -n0, and an empty database."""
    folder, database = tmp_path / "config", tmp_path / "database"
    folder.mkdir()
    database.mkdir()
    run("slapadd", "-n0", "-F", folder, standard_input=config_ldif(database).encode())
    return folder


def values(ldif_text, attribute):
    """All values of an attribute in LDIF, lines joined, numbers in braces dropped."""
    found = []
    for line in ldif_text.replace("\n ", "").splitlines():
        name, _, value = line.partition(": ")
        if name == attribute:
            found.append(value.partition("}")[2] if value.startswith("{") else value)
    return found


def msmq_schema(folder):
    """Definitions of the loaded schema file named msmq."""
    text = run("slapcat", "-n0", "-F", folder, "-a", "(cn=*msmq)", "-o", "ldif-wrap=no")
    return values(text, "olcAttributeTypes"), values(text, "olcObjectClasses")


@pytest.mark.spec("MS-MQDSSM 2.2.2")
@pytest.mark.spec("MS-MQDSSM 2.4")
def test_the_config_ldif_loads_and_holds_all(config):
    attributes, classes = msmq_schema(config)
    own = [a for a in schema_attributes.ALL if not a.builtin]
    assert [parse_description(a).oid for a in attributes] == [a.oid for a in own]
    assert [parse_description(c).oid for c in classes] == [c.oid for c in schema_classes.ALL]


def test_the_schema_file_and_the_config_ldif_say_the_same(config, tmp_path):
    slapd_conf, converted = tmp_path / "slapd.conf", tmp_path / "converted"
    converted.mkdir()
    slapd_conf.write_text(f"include {CORE}/core.schema\ninclude {LDIF}/msmq.schema\n")
    run("slaptest", "-f", slapd_conf, "-F", converted)
    from_file, from_ldif = msmq_schema(converted), msmq_schema(config)
    assert len(from_ldif[0]) > 80
    for ours, theirs in zip(from_ldif, from_file, strict=True):
        assert list(map(parse_description, ours)) == list(map(parse_description, theirs))


def test_the_base_tree_loads(config):
    run("slapadd", "-n1", "-F", config, "-l", LDIF / "base-tree.ldif")
    text = run("slapcat", "-n1", "-F", config)
    assert text.count("\nobjectGUID:: ") == 7
    assert "structuralObjectClass: mSMQEnterpriseSettings" in text


QUEUE_PATH = f"CN=q,CN=msmq,CN=m,CN=Computers,{ROOT}"
ENTRIES = f"""dn: CN=m,CN=Computers,{ROOT}
objectClass: top
objectClass: user
objectClass: computer
sAMAccountName: m$
dNSHostName: m.example.com
servicePrincipalName: HOST/m
mSMQDigests: 0123456789abcdef
objectSid: x

dn: CN=msmq,CN=m,CN=Computers,{ROOT}
objectClass: mSMQConfiguration
mSMQServiceType: -1
mSMQSites: 0123456789abcdef
mSMQSites: 0123456789abcdeg
mSMQOutRoutingServers: CN=msmq,CN=other,CN=Computers,{ROOT}

dn: {QUEUE_PATH}
objectClass: top
objectClass: mSMQQueue
mSMQLabelEx: Orders
mSMQQueueQuota: -1
mSMQJournal: TRUE
mSMQPrivacyLevel: 1
whenCreated: 20261121001513.0Z
MSMQ-MulticastAddress: 234.1.1.1:8001

dn: CN=s,CN=Sites,CN=Configuration,{ROOT}
objectClass: site
mSMQSiteForeign: TRUE
mSMQNt4Stub: 1

dn: CN=Servers,CN=s,CN=Sites,CN=Configuration,{ROOT}
objectClass: serversContainer

dn: CN=m,CN=Servers,CN=s,CN=Sites,CN=Configuration,{ROOT}
objectClass: server

dn: CN=MSMQ Settings,CN=m,CN=Servers,CN=s,CN=Sites,CN=Configuration,{ROOT}
objectClass: mSMQSettings
mSMQServices: 8
mSMQRoutingService: TRUE

dn: CN=l,CN=MsmqServices,CN=Services,CN=Configuration,{ROOT}
objectClass: mSMQSiteLink
mSMQSite1: CN=s,CN=Sites,CN=Configuration,{ROOT}
mSMQSite2: CN=s,CN=Sites,CN=Configuration,{ROOT}
mSMQCost: 1
description: a
description: b

dn: CN=alias,CN=Users,{ROOT}
objectClass: mSMQ-Custom-Recipient
msMQ-Recipient-FormatName: DIRECT=OS:m\\q

dn: CN=list,CN=Users,{ROOT}
objectClass: top
objectClass: group
member: {QUEUE_PATH}

dn: CN=u,CN=Users,{ROOT}
objectClass: top
objectClass: user
sn: u
userPassword: secret
"""


def test_objects_of_every_class_can_be_stored(config):
    run("slapadd", "-n1", "-F", config, "-l", LDIF / "base-tree.ldif")
    run("slapadd", "-n1", "-F", config, standard_input=ENTRIES.encode())
    text = run("slapcat", "-n1", "-F", config)
    for line in ENTRIES.splitlines():
        if line and not line.startswith(
            ("dn:", "objectClass:", "userPassword:", "mSMQOut", "mSMQSite", "member")
        ):
            assert f"{line}\n" in text


def refused(config, entry):
    with pytest.raises(RuntimeError, match="slapadd: ") as caught:
        run("slapadd", "-n1", "-F", config, "-o", "value-check=yes", standard_input=entry.encode())
    return str(caught.value)


def test_the_server_refuses_what_the_schema_does_not_allow(config):
    run("slapadd", "-n1", "-F", config, "-l", LDIF / "base-tree.ldif")
    users = f"CN=Users,{ROOT}"
    two = f"dn: CN=x,{users}\nobjectClass: mSMQQueue\nmSMQLabelEx: a\nmSMQLabelEx: b\n"
    assert "multiple values" in refused(config, two)
    foreign = f"dn: CN=x,{users}\nobjectClass: mSMQQueue\nmSMQSites: 0123456789abcdef\n"
    assert "not allowed" in refused(config, foreign)
    link = f"dn: CN=x,{users}\nobjectClass: mSMQSiteLink\nmSMQCost: 1\n"
    assert "requires attribute 'mSMQSite1'" in refused(config, link)
    truth = f"dn: CN=x,{users}\nobjectClass: mSMQQueue\nmSMQJournal: yes\n"
    assert "mSMQJournal" in refused(config, truth)


def test_a_running_server_publishes_a_schema_without_differences(openldap_server):
    command = ("ldapsearch", "-x", "-LLL", "-o", "ldif-wrap=no", "-H", openldap_server.ldapi_url)
    text = run(*command, "-s", "base", "-b", "cn=Subschema", "attributeTypes", "objectClasses")
    attributes, classes = values(text, "attributeTypes"), values(text, "objectClasses")
    assert len(attributes) > 100
    assert compare(attributes, classes) == []


def test_msuser_schema_is_recognised_as_unusable(tmp_path):
    """Debian's own file of the same names has no equality rules, so no search by GUID works."""
    slapd_conf, converted = tmp_path / "slapd.conf", tmp_path / "converted"
    converted.mkdir()
    files = ("core", "cosine", "nis", "inetorgperson", "misc", "msuser")
    slapd_conf.write_text("".join(f"include {CORE}/{name}.schema\n" for name in files))
    run("slaptest", "-f", slapd_conf, "-F", converted)
    text = run("slapcat", "-n0", "-F", converted, "-o", "ldif-wrap=no")
    found = compare(values(text, "olcAttributeTypes"), values(text, "olcObjectClasses"))
    assert any("objectGUID: has no equality rule" in str(difference) for difference in found)
