"""``mqdssm demo``: a small enterprise in a private directory, made, read, changed, exported, validated."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli import demo_enterprise as enterprise
from mqdssm.cli import human
from mqdssm.cli.demo_stage import Stage
from mqdssm.cli.objects import ObjectType
from mqdssm.cli.private import testing_module
from mqdssm.cli.run import Run, add_command

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory
    from mqdssm.model.base import DirectoryObject
    from mqdssm.testing.openldap import OpenLdapServer

app = typer.Typer(add_completion=False)

SHOWN_ROWS: Final = 4
DELETED_QUEUES: Final = 10


def demo(
    run: Run,
    *,
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Export, validate (needs Java).")] = True,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", help="Keep directory and exports there.", show_default=False),
    ] = None,
) -> None:
    """See it work: a private OpenLDAP with a small enterprise; read, changed, exported, validated.

    Nothing outside a temporary folder is touched, and no server of yours is spoken to.
    """
    from mqdssm.errors import ConfigError

    if spark:
        from mqdssm.spark.session import check_spark

        try:
            check_spark()
        except ConfigError as error:
            raise ConfigError(f"{error}; or see all the rest: mqdssm demo --no-spark") from error
    testing_module("openldap_config").require_software()
    stage = Stage(run.output)
    with _folder(keep) as folder, contextlib.ExitStack() as stack:
        stage.text("A demonstration of mqdssm: MSMQ's objects in an LDAP directory, as [MS-MQDSSM] has it.\n")
        server = _start(stage, stack, folder / "directory")
        directory = _connect(stage, stack, server)
        made = enterprise.Made()
        _fill(stage, server, directory, made)
        _read(stage, directory, made)
        _resolve(stage, directory, made)
        _change(stage, directory, made)
        _delete(stage, directory, made)
        if spark:
            from mqdssm.cli.demo_pipeline import export_and_validate

            export_and_validate(stage, stack, server, directory, folder / "export")
    _next(stage, keep, spark=spark)
    stage.end()


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="mqdssm-demo-") as name:
            yield Path(name)
        return
    from mqdssm.errors import ConfigError

    try:
        keep.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise ConfigError(f"{keep} is not empty: the demonstration needs a folder of its own")
    except OSError as error:
        raise ConfigError(f"{keep} cannot be used: {error.strerror}") from error
    yield keep.absolute()


def _start(stage: Stage, stack: contextlib.ExitStack, folder: Path) -> "OpenLdapServer":
    from mqdssm.testing.openldap import OpenLdapServer

    with stage.step("A private OpenLDAP with the MSMQ schema"):
        stage.call("server = OpenLdapServer()      # from mqdssm.testing")
        server = stack.enter_context(OpenLdapServer(folder, durable=False))
        stage.result(f"{server.url}, StartTLS offered, root {server.base_dn}; nobody else can see it")
    return server


def _connect(stage: Stage, stack: contextlib.ExitStack, server: "OpenLdapServer") -> "Directory":
    import mqdssm

    with stage.step("Connect"):
        stage.call(
            "directory = mqdssm.connect(server.url, user=server.user, password=…, ca_file=server.ca_file)"
        )
        access: dict[str, Any] = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
        directory = stack.enter_context(mqdssm.connect(server.url, **access))
        session = directory.session
        stage.result(f"{session.profile.title}, certificate verified, root {session.naming.root}")
    return directory


def _fill(stage: Stage, server: "OpenLdapServer", directory: "Directory", made: enterprise.Made) -> None:
    import mqdssm
    from mqdssm.wire.dtyp import SecurityDescriptor

    with stage.step("What other programs add: computers and users, by plain LDAP adds"):
        stage.call('server.add_computer("berlin01"); server.add_user("ann")')
        machines, users = enterprise.add_accounts(server)
        stage.result(f"{machines} computers, {users} users")
    with stage.step("Enterprise, sites and routing links"):
        stage.call(
            'enterprise.security = SecurityDescriptor.from_sddl("O:BAG:BA…"); directory.write(enterprise)'
        )
        (found,) = directory.search(mqdssm.Enterprise, attributes=["Identifier"])
        found.security = bytes(SecurityDescriptor.from_sddl(enterprise.ENTERPRISE_SDDL))
        found.default_time_to_live = 86_400
        directory.write(found)
        stage.call(
            'berlin = directory.create(mqdssm.Site(name="Berlin"))\n'
            "directory.create(mqdssm.RoutingLink(site1_identifier=berlin, site2_identifier=…, actual_cost=5))"
        )
        enterprise.create_sites(directory, made)
        stage.result(f"{len(made.sites)} sites, {len(made.links)} links")
    with stage.step("Queue managers: in each site one routing server, the gate of its links"):
        stage.call(
            'directory.create(mqdssm.QueueManager(computer_name="berlin02", site_identifier_list=[berlin],\n'
            "                                     out_routing_server_identifier_list=[gate], …))\n"
            'directory.write(link, attributes=["SiteGateIdentifierList"])'
        )
        enterprise.create_managers(directory, made)
        enterprise.set_gates(directory, made)
        stage.result(f"{len(made.managers)} queue managers, {len(made.gates)} of them routing servers")
        stage.result(f"with them came {len(_settings_objects(directory))} mSMQSettings objects in the sites")
    with stage.step("Queues"):
        stage.call(
            r'directory.create(mqdssm.Queue(pathname=r"berlin01\orders", label="Orders", quota=1000, …))'
        )
        count = enterprise.create_queues(directory, made)
        stage.result(f"{count} queues, each with a GUID and a computed security descriptor")


def _settings_objects(directory: "Directory") -> list[str]:
    from mqdssm.directory.filters import Equal

    session = directory.session
    of_class = Equal("objectClass", b"mSMQSettings")
    return [entry.dn for entry in session.find(session.naming.configuration, of_class, ["1.1"])]


def _settings_of(directory: "Directory", computer: str) -> str:
    mine = [dn for dn in _settings_objects(directory) if computer in dn.lower()]
    return "; ".join(mine) or "no mSMQSettings object"


def _read(stage: Stage, directory: "Directory", made: enterprise.Made) -> None:
    import mqdssm

    with stage.step("Read all of it back"):
        stage.call("for queue in directory.search(mqdssm.Queue): …      # streamed, in pages")
        rows = []
        for kind in ObjectType:
            found = list(directory.search(kind.element))
            attributes = sum(len(one.populated) for one in found)
            rows.append((kind.value, str(len(found)), str(attributes)))
        stage.table(("type", "objects", "attributes"), rows)
        stage.result(enterprise.compared(directory, made))
        stage.call(
            "directory.search(\n    mqdssm.Queue,\n"
            '    [mqdssm.Filter("Transactional", "==", True), mqdssm.Filter("Quota", ">", 6000)],\n'
            '    sort=[mqdssm.SortKey("Quota", priority=2, ascending=False), mqdssm.SortKey("Pathname")],\n)'
        )
        filters = [mqdssm.Filter("Transactional", "==", True), mqdssm.Filter("Quota", ">", 6000)]
        keys = [mqdssm.SortKey("Quota", priority=2, ascending=False), mqdssm.SortKey("Pathname")]
        queues = list(directory.search(mqdssm.Queue, filters, sort=keys))
        names = ("Pathname", "Label", "Quota", "PrivacyLevel")
        stage.table(names, _cells(ObjectType.QUEUE, queues[:SHOWN_ROWS], names))
        stage.result(f"{len(queues)} queues are transactional and may hold more than 6000 KB")
    with stage.step("One object, as people read it"):
        stage.call(r'directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", r"berlin01\orders"))')
        queue = directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", r"berlin01\orders"))
        stage.table(("attribute", "value"), human.pairs(queue, ObjectType.QUEUE.table))
        stage.command(r"mqdssm read queue 'Pathname=berlin01\orders' --output json")


def _cells(kind: ObjectType, objects: "list[Any]", names: tuple[str, ...]) -> list[list[str]]:
    rows = kind.table.rows_for(names)
    found: list[DirectoryObject] = objects
    return [human.cells(obj, rows) for obj in found]


def _resolve(stage: Stage, directory: "Directory", made: enterprise.Made) -> None:
    with stage.step("An alias, and distribution lists that contain each other"):
        stage.call("session.add(…)      # plain LDAP adds: an alias, and two groups that contain each other")
        alias, identifier = enterprise.add_lists(directory, made)
        stage.call(f'directory.resolve_queue_alias("{alias}")')
        stage.result(directory.resolve_queue_alias(alias))
        name = f"DL={str(identifier).upper()}"
        stage.call(f'directory.resolve_distribution_list("{name}")')
        for one in directory.resolve_distribution_list(name):
            stage.result(one)


def _change(stage: Stage, directory: "Directory", made: enterprise.Made) -> None:
    import mqdssm

    with stage.step("Change some"):
        stage.call('queue.label = "Paid orders"; directory.write(queue)      # writes Label, nothing else')
        queue = directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", r"berlin01\orders"))
        queue.label = "Paid orders"
        directory.write(queue)
        again = directory.read(
            mqdssm.Queue,
            mqdssm.Filter("Identifier", "==", queue.identifier),
            attributes=["Label", "ModifyTime"],
        )
        stage.result(f"Label is {again.label!r} now, changed {human.time_of(again.modify_time or 0)}")
        stage.call(
            "manager.site_identifier_list = (oslo,); manager.routing_server = True\ndirectory.write(manager)"
        )
        manager = directory.read(mqdssm.QueueManager, mqdssm.Filter("ComputerName", "==", "berlin08"))
        manager.site_identifier_list = (made.sites["Oslo"],)
        manager.routing_server = True
        directory.write(manager)
        stage.result(f"berlin08 is a routing server of Oslo, and has {_settings_of(directory, 'berlin08')}")
        stage.call('mqdssm.Queue(label="x" * 200)')
        try:
            mqdssm.Queue(label="x" * 200)
        except ValueError as error:
            from mqdssm.cli.exits import words_of

            stage.result(f"refused before anything is sent: {words_of(error)}")


def _delete(stage: Stage, directory: "Directory", made: enterprise.Made) -> None:
    import mqdssm

    with stage.step("Delete some"):
        stage.call(r'directory.delete(mqdssm.Queue(pathname=r"paris01\log"))')
        gone = [path for path in made.queues if path.endswith("\\log")][:DELETED_QUEUES]
        for path in gone:
            directory.delete(mqdssm.Queue(pathname=path))
        stage.result(f"{len(gone)} queues deleted")
        stage.call('directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))      # of one')
        try:
            directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", made.queues[gone[0]]))
        except mqdssm.ObjectNotFound as error:
            stage.result(f"{type(error).__name__}, result {error.result.value}: {error}")
        stage.call('directory.delete(mqdssm.QueueManager(computer_name="oslo05"), recursive=True)')
        directory.delete(mqdssm.QueueManager(computer_name="oslo05"), recursive=True)
        left = sum(1 for _ in directory.search(mqdssm.Queue, attributes=["Identifier"]))
        stage.result(f"the queue manager and its queues are gone; {left} queues are left")


def _next(stage: Stage, keep: Path | None, *, spark: bool) -> None:
    with stage.step("What to try next"):
        if keep is None:
            stage.command(
                "mqdssm sandbox start ~/msmq --computer web01      # a private directory that stays"
            )
        else:
            stage.command(f"mqdssm sandbox start {keep / 'directory'}      # what you just saw, kept")
        stage.command("mqdssm doctor      # once MQDSSM_URL and the others are set as the sandbox says")
        stage.command('mqdssm list queue --filter "Transactional==true" --output json')
        if spark:
            stage.command("mqdssm export --type all --to export && mqdssm validate export")
        stage.command("mqdssm --help")
        stage.result("docs/README.md says what to read; in Python: import mqdssm; help(mqdssm.Directory)")


add_command(
    app,
    "demo",
    demo,
    connects=False,
    examples=("mqdssm demo", "mqdssm demo --no-spark", "mqdssm demo --keep ~/msmq-demo"),
)
