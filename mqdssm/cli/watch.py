"""``mqdssm watch``: changes of the directory as they are made, by whomever."""

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli import exits, human
from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects import ObjectType
from mqdssm.cli.output import say
from mqdssm.cli.run import Run, add_command, usage_problems

if TYPE_CHECKING:
    from mqdssm.errors import DirectoryError
    from mqdssm.events.watching.watch import Watch
    from mqdssm.model.watching import AttributeChange, ObjectChange

app = typer.Typer(add_completion=False)

SHOWN_CHARS_MAX: Final = 60
"""Characters of a value that a line for people shows; JSON has all of them."""
_UNKNOWN: Final = "(not kept)"
_NOTHING: Final = "(none)"


def watch(
    run: Run,
    *,
    kind: Annotated[
        ObjectType | None,
        typer.Argument(metavar="[TYPE]", help="What kind of object; else all.", show_default=False),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="Where to go on: kept, so that nothing is missed."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="ATTRIBUTE", help="Do not tell its changes; repeatable."),
    ] = None,
) -> None:
    """Print what is created, changed and deleted, as it happens, by whomever; until Ctrl-C.

    What exists at the first start is not printed. With a state file the next start goes on where this one
    ended, and prints what happened in between. JSON: one document a line.
    """
    kinds = [one.element for one in ([kind] if kind is not None else ObjectType)]
    ignored = _ignored(ignore or (), kinds)
    with run.connect() as directory, usage_problems():
        changes = directory.watch(
            *kinds, state=state, ignore=ignored, on_ready=partial(_say_ready, run), on_trouble=_say_trouble
        )
    with changes, _until_told(changes), usage_problems():
        for change in changes:
            line = json_of(change) if run.output.is_json else exits.visible(text_of(change))
            sys.stdout.write(line + "\n")
            sys.stdout.flush()  # each line at once, and before the change counts as told


def _ignored(names: Sequence[str], kinds: Sequence[Any]) -> tuple[str, ...]:
    """The attributes that are not told.

    Raises:
        UsageProblem: a name that no watched element has.
    """
    from mqdssm.model.watching import LDAP_MARK

    known = {name for kind in kinds for name in kind.adm_names()}
    for name in names:
        if name not in known and not name.startswith(LDAP_MARK):
            raise UsageProblem(
                f"--ignore {name}: nothing that is watched has this attribute ('mqdssm schema show' has the "
                f"names; of attributes that are LDAP's alone: {LDAP_MARK}NAME)"
            )
    return tuple(names)


def _say_ready(run: Run, url: str) -> None:
    run.output.note(f"watching {url}: Ctrl-C ends it")


def _say_trouble(error: "DirectoryError", pause_s: float) -> None:
    say(f"warning: {exits.words_of(error)}; trying again in {pause_s:.1f} s")


@contextlib.contextmanager
def _until_told(changes: "Watch") -> Iterator[None]:
    """SIGINT and SIGTERM end the watch in good order: what was printed counts as told."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are another one's
        return

    def stop(*_: object) -> None:
        changes.stop()

    wanted = [signal.SIGINT, signal.SIGTERM]
    before = [(one, signal.signal(one, stop)) for one in wanted]
    try:
        yield
    finally:
        for one, handler in before:
            signal.signal(one, handler)


def json_of(change: "ObjectChange") -> str:
    """A change as one line of JSON; a value that is not known is left out, none is null."""
    said = {
        "event": change.event.value,
        "type": change.type,
        "dn": change.dn,
        "guid": None if change.guid is None else str(change.guid),
        "changes": {name: _sides(change, name, one) for name, one in change.changes.items()},
    }
    return json.dumps(said, ensure_ascii=False)


def _sides(change: "ObjectChange", name: str, one: "AttributeChange") -> dict[str, Any]:
    from mqdssm.model.watching import UNKNOWN

    sides = {"old": one.old, "new": one.new}
    return {side: _plain(change, name, value) for side, value in sides.items() if value is not UNKNOWN}


def _plain(change: "ObjectChange", name: str, value: Any) -> Any:
    """A value as the JSON form of its element has it."""
    if value is None:
        return None
    if name in change.element.adm_names():
        field = change.element.field_name(name)
        return json.loads(change.element.from_directory({field: value}).to_json())[name]
    return _ldap_plain(value)


def _ldap_plain(value: Any) -> Any:
    from base64 import b64encode

    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, tuple | list):
        return [_ldap_plain(one) for one in value]
    return value


def text_of(change: "ObjectChange") -> str:
    """A change as one line for people."""
    told = [f"{name}: {_arrow(change, name, one)}" for name, one in change.changes.items()]
    return "  ".join(
        (f"{change.event.value:7}", f"{change.type:13}", change.dn, *(["; ".join(told)] * bool(told)))
    )


def _arrow(change: "ObjectChange", name: str, one: "AttributeChange") -> str:
    from mqdssm.model.watching import ChangeEvent

    if change.event is ChangeEvent.CREATED:
        return _shown(change, name, one.new)
    if change.event is ChangeEvent.DELETED:
        return _shown(change, name, one.old)
    return f"{_shown(change, name, one.old)} → {_shown(change, name, one.new)}"


def _shown(change: "ObjectChange", name: str, value: Any) -> str:
    from mqdssm.model.watching import UNKNOWN
    from mqdssm.tables import table_of

    if value is UNKNOWN:
        return _UNKNOWN
    if value is None or value in ("", b"", ()):
        return _NOTHING
    row = table_of(change.element).by_adm.get(name)
    text = human.text_of(row, value) if row is not None else _ldap_text(value)
    return text if len(text) <= SHOWN_CHARS_MAX else text[:SHOWN_CHARS_MAX] + "…"


def _ldap_text(value: Any) -> str:
    plain = _ldap_plain(value)
    return ", ".join(map(str, plain)) if isinstance(plain, list) else str(plain)


add_command(
    app,
    "watch",
    watch,
    examples=(
        "mqdssm watch",
        "mqdssm watch queue --state queues.state --output json",
        "mqdssm watch -o json --ignore Security | jq -c 'select(.event == \"deleted\")'",
    ),
)
