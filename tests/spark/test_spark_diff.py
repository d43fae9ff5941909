"""``mqdssm diff`` on the command line and against a slapd, with the session that all tests of Spark share."""

import subprocess

from typer.testing import CliRunner

import mqdssm
from mqdssm.cli.main import app
from mqdssm.samples.plan import Plan
from mqdssm.spark.export import export
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.wire.dtyp import SecurityDescriptor

PLAN = Plan(sites=3, machines=12, queues=150, users=12, seed=5)
OTHER_OWNER = bytes(SecurityDescriptor.from_sddl("O:SYG:SYD:(A;;0x20024;;;WD)"))


def invoke(*args, code=0, **environment):
    result = CliRunner().invoke(app, ["diff", *map(str, args)], env=environment)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def apply(server: OpenLdapServer, ldif: str) -> None:
    """What a person does with the LDIF."""
    command = ["ldapmodify", "-x", "-H", server.url, "-D", server.user, "-w", server.password]
    environment = {"LDAPTLS_CACERT": server.ca_file, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, input=ldif, capture_output=True, text=True, env=environment, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def change(directory) -> None:
    """Something of everything."""
    queues = sorted(directory.search(mqdssm.Queue), key=lambda queue: queue.pathname)
    queues[0].label = "other"
    queues[0].quota = 7
    directory.write(queues[0])
    directory.delete(queues[1])
    queues[2].security = OTHER_OWNER
    directory.write(queues[2])
    computer = queues[2].pathname.partition("\\")[0]
    directory.create(mqdssm.Queue(pathname=rf"{computer}\new#queue=1", security=OTHER_OWNER))
    link = next(directory.search(mqdssm.RoutingLink))
    link.actual_cost = 999
    directory.write(link)


def test_differences_are_told_and_ldif_mends_them(spark, enterprise, login, tmp_path):
    before = tmp_path / "before"
    export(enterprise.server.url, ["queue", "routing-link", "site"], before, **enterprise.access)
    with enterprise.connect() as directory:
        change(directory)
    made = invoke(before, enterprise.server.url, "-o", "ldif", code=1, **login)
    changes = [line.split()[-1] for line in made.stdout.splitlines() if line.startswith("changetype")]
    assert sorted(changes) == ["add", "delete", "modify", "modify", "modify"]
    apply(enterprise.server, made.stdout)
    again = invoke(before, enterprise.server.url, "--type", "queue", **login)
    assert again.stdout == "no differences\n"
    assert "0 differences (0 missing, 0 extra, 0 different) between 3 objects" in again.stderr
