"""Object operations of ``mqdssm demo``: search, create, read, change and delete."""

from typing import TYPE_CHECKING, Any, Final

from mqdssm.cli.demo.stage import DemoStage
from mqdssm.cli.objects import display
from mqdssm.cli.objects.arguments import CommandType

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory
    from mqdssm.model.base import DirectoryObject

SHOWN_ROWS: Final = 4


def search(stage: DemoStage, directory: "Directory") -> None:
    """Search some queues, filtered and sorted."""
    import mqdssm

    with stage.step("Search"):
        stage.call(
            "directory.search(\n    mqdssm.Queue,\n"
            '    [mqdssm.Filter("Transactional", "==", True), mqdssm.Filter("Quota", ">", 1_000_000)],\n'
            '    sort=[mqdssm.SortKey("Pathname")],\n)      # streamed, in pages'
        )
        filters = [mqdssm.Filter("Transactional", "==", True), mqdssm.Filter("Quota", ">", 1_000_000)]
        names = ("Pathname", "Label", "Quota", "PrivacyLevel")
        queues = list(
            directory.search(mqdssm.Queue, filters, sort=[mqdssm.SortKey("Pathname")], attributes=names)
        )
        stage.table(names, _cells(CommandType.QUEUE, queues[:SHOWN_ROWS], names))
        stage.result(f"{len(queues)} queues are transactional and may hold more than 1,000,000 KB")
        stage.command('mqdssm list queue --filter "Transactional==true" --filter "Quota>1000000"')


def change(stage: DemoStage, directory: "Directory", computer: str) -> None:
    """Create a queue, read it, change it and delete it again.

    Args:
        stage: where it is shown.
        directory: where it is done.
        computer: a machine with a queue manager.
    """
    import mqdssm

    path = rf"{computer}\demo.orders"
    with stage.step("Create a queue, and read it"):
        stage.call(
            f'guid = directory.create(mqdssm.Queue(pathname=r"{path}", label="Orders", quota=1000))\n'
            'directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))'
        )
        queue = mqdssm.Queue(pathname=path, label="Orders", quota=1000, transactional=True)
        identifier = directory.create(queue)
        by_guid = mqdssm.Filter("Identifier", "==", identifier)
        stored_queue = directory.read(mqdssm.Queue, by_guid)
        stage.table(("attribute", "value"), display.pairs(stored_queue, CommandType.QUEUE.table))
    with stage.step("Change it, and delete it"):
        stage.call('queue.label = "Paid orders"; directory.write(queue)      # writes Label, nothing else')
        stored_queue.label = "Paid orders"
        directory.write(stored_queue)
        again = directory.read(mqdssm.Queue, by_guid, attributes=["Label", "ModifyTime"])
        stage.result(f"Label is {again.label!r} now, changed {display.time_of(again.modify_time or 0)}")
        stage.call('mqdssm.Queue(label="x" * 200)')
        try:
            mqdssm.Queue(label="x" * 200)
        except ValueError as error:
            from mqdssm.cli.exits import words_of

            stage.result(f"refused before anything is sent: {words_of(error)}")
        stage.call("directory.delete(queue); directory.read(mqdssm.Queue, …)")
        directory.delete(mqdssm.Queue(pathname=path))
        try:
            directory.read(mqdssm.Queue, by_guid)
        except mqdssm.ObjectNotFound as error:
            stage.result(f"{type(error).__name__}, result {error.result.value}: {error}")


def _cells(kind: CommandType, objects: "list[Any]", names: tuple[str, ...]) -> list[list[str]]:
    rows = kind.table.rows_for(names)
    items: list[DirectoryObject] = objects
    return [display.cells(obj, rows) for obj in items]
