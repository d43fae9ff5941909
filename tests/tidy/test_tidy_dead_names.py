"""No dead names: the package, its workshop or the users' pages use what the package defines.

A use is a name that is read, an attribute or an identifier within a string. Names in docstrings, comments,
imports and ``__all__`` are no uses, nor are those in a definition that is itself unused. A module's own names
are used by the module and by those that import them; members of classes by any attribute of that name.
A page of the API uses only the members that it names.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from support.project.source_tree import ROOT, files, last_name, name, nodes, report, sources, tree

HERE = "tests/tidy/test_tidy_dead_names.py"
KEPT = {
    "mqdssm/engines/session/session.py": {
        "answer_ping": "[MS-MQQB] 3.1.5.1: only the simulation sends pings, no driver listens on UDP 3527",
    },
    "mqdssm/drivers/tcp/session_connection.py": dict.fromkeys(
        ("connection_made", "data_received", "connection_lost", "pause_writing", "resume_writing"),
        "asyncio calls it",
    ),
    "mqdssm/drivers/discovery/client.py": {
        "report_networks": "an event of [MS-MQSD] 3.2.4 that a program reports"
    },
    "mqdssm/wire/mqqb.py": dict.fromkeys(
        ("decode_ping", "encode_ping", "decode_order_ack"),
        "[MS-MQQB] 2.2: for programs with captures; no driver receives these",
    ),
    "mqdssm/spark/registration.py": {"DefaultSource": "Spark looks it up"},
    "mqdssm/samples/faults.py": {
        "compare_with_truth": "judges findings by the list of planted defects, as the tests do"
    },
    "mqdssm/tables/element_table.py": {
        "list_ldap_pairs": "[MS-MQDSSM] 3.1.6.10, proven against the table",
        "list_ldap_attributes": "[MS-MQDSSM] 3.1.6.10, proven against the table",
    },
}
"""Names without a use that stay, and the reason."""
NUMBERS = frozenset({"mqdssm/model/propids.py", "mqdssm/wire/masks.py"})
"""Lists of numbers from a specification, which are complete."""
EXPLANATIONS = frozenset(
    {
        "architecture",
        "decisions",
        "hacking",
        "libraries",
        "performance",
        "releasing",
        "replication",
        "simulation",
    }
)
"""Pages that explain the code; the other pages promise names to users."""
LOCAL_DECORATORS = frozenset(
    [
        *(
            "abstractmethod",
            "asynccontextmanager",
            "cache",
            "cached_property",
            "classmethod",
            "contextmanager",
        ),
        *("dataclass", "final", "lru_cache", "overload", "override", "property", "runtime_checkable"),
        *("setter", "staticmethod", "total_ordering"),
    ]
)
"""Decorators that register nothing; functions with others (commands, validators) are used."""
PLAIN_BASES = frozenset(
    ["ABC", "BaseModel", "Enum", "Exception", "Generic", "NamedTuple", "Protocol", "ValueError"]
)
"""Bases from elsewhere that call no methods by their names."""
WORD = re.compile(r"[A-Za-z_]\w+")
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Defined:
    """A name that a module or one of its classes defines."""

    name: str
    path: Path
    node: Definition
    owner: ast.ClassDef | None

    def holds(self, path: Path, line: int) -> bool:
        return path == self.path and self.node.lineno <= line <= (self.node.end_lineno or 0)


class Use(NamedTuple):
    """A name that is used; `qualified` means as an attribute or in a string or a page."""

    path: Path
    line: int
    qualified: bool


def definitions(path: Path, body: Iterable[ast.stmt], owner: ast.ClassDef | None = None) -> Iterator[Defined]:
    """The functions, classes, methods and constants of a module; not the fields and members of a class."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if {last_name(one) for one in node.decorator_list} <= LOCAL_DECORATORS:
                yield Defined(node.name, path, node, owner)
            if isinstance(node, ast.ClassDef):
                yield from definitions(path, node.body, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and owner is None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (Defined(one.id, path, node, None) for one in targets if isinstance(one, ast.Name))


def unread(path: Path) -> set[ast.AST]:
    """Docstrings, and the values of ``__all__`` and of the table of lazy names."""
    found: set[ast.AST] = set()
    for node in nodes(path):
        if isinstance(node, ast.Expr):
            found.add(node.value)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(one, ast.Name) and one.id in {"__all__", "_MODULES"} for one in targets):
                found |= set(ast.walk(node.value))
    return {node for node in found if not isinstance(node, ast.Call | ast.Await | ast.Yield | ast.YieldFrom)}


def uses_in(path: Path, names: set[str]) -> Iterator[tuple[str, Use]]:
    """The uses of some names in a file."""
    skipped = unread(path)
    for node in nodes(path):
        if isinstance(node, ast.Name):
            if node.id in names and isinstance(node.ctx, ast.Load) and node not in skipped:
                yield node.id, Use(path, node.lineno, qualified=False)
        elif isinstance(node, ast.Attribute):
            if node.attr in names and node not in skipped:
                yield node.attr, Use(path, node.lineno, qualified=True)
        elif isinstance(node, ast.keyword):
            if node.arg in names and node not in skipped:
                yield node.arg, Use(path, node.value.lineno, qualified=True)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            for word in names.intersection(WORD.findall(node.value)):
                yield word, Use(path, node.lineno, qualified=True)


def words_of_pages() -> Iterator[tuple[str, Use]]:
    """Names in the Python examples of all pages, and in any code of those for users."""
    for path in files():
        if path.suffix != ".md" or path.parent not in {ROOT, ROOT / "docs"}:
            continue
        text = path.read_text(encoding="utf-8")
        pieces = re.findall(r"```(?:python|\{eval-rst\})\n(.*?)```", text, re.DOTALL)
        if path.stem not in EXPLANATIONS:
            pieces += re.findall(r"`[^`\n]+`", text)
        for word in {word for piece in pieces for word in WORD.findall(piece)}:
            yield word, Use(path, 0, qualified=True)


def called_from_outside(owner: ast.ClassDef | None, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether a base from another package may call the methods of a class by their names."""
    for base in owner.bases if owner else ():
        named = last_name(base)
        if named not in PLAIN_BASES and (
            named not in classes or called_from_outside(classes[named], classes)
        ):
            return True
    return False


def may_be_dead() -> list[Defined]:
    """The names of the package that need a use."""
    package = sources("mqdssm")
    classes = {node.name: node for path in package for node in nodes(path) if isinstance(node, ast.ClassDef)}
    return [
        one
        for path in package
        if name(path) not in NUMBERS
        for one in definitions(path, tree(path).body)
        if not re.fullmatch(r"__\w+__", one.name)
        and one.name not in KEPT.get(name(path), {})
        and not (one.owner and called_from_outside(one.owner, classes))
    ]


def uses_in_tests(names: set[str], importers: dict[str, set[Path]]) -> Iterator[tuple[str, Use]]:
    """The uses of some names in the tests, whose imports are added; files without any are not parsed."""
    for path in sources("tests"):
        written = names.intersection(WORD.findall(path.read_text(encoding="utf-8")))
        if not written:
            continue
        yield from uses_in(path, written)
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    importers[alias.name].add(path)


def dead_names() -> list[Defined]:
    pending = may_be_dead()
    names = {one.name for one in pending}
    uses: dict[str, list[Use]] = defaultdict(list)
    importers: dict[str, set[Path]] = defaultdict(set)
    for path in (*sources("mqdssm"), *sources(".ci", "benchmarks"), ROOT / "docs" / "conf.py"):
        for used, use in uses_in(path, names):
            uses[used].append(use)
        for node in (node for node in nodes(path) if isinstance(node, ast.ImportFrom)):
            for alias in node.names:
                importers[alias.name].add(path)
                if alias.asname and alias.asname != alias.name:
                    uses[alias.name].append(Use(path, node.lineno, qualified=True))
    for used, use in words_of_pages():
        uses[used].append(use)
    dead: list[Defined] = []

    def is_used(one: Defined) -> bool:
        found = uses[one.name]
        if one.path.is_relative_to(ROOT / "mqdssm" / "testing"):
            found = found + uses[f"testing {one.name}"]
        return any(
            (use.qualified or one.owner or use.path == one.path or use.path in importers[one.name])
            and (not one.holds(use.path, use.line) or isinstance(one.node, ast.Assign | ast.AnnAssign))
            and not any(other.holds(use.path, use.line) for other in dead)
            for use in found
        )

    searched: set[str] = set()
    while unused := [one for one in pending if not is_used(one)]:
        # the fakes and servers of mqdssm.testing are for tests; all other names are not searched for there
        testing = {one.name for one in unused if one.path.is_relative_to(ROOT / "mqdssm" / "testing")}
        if wanted := testing - searched:
            searched |= wanted
            for used, use in uses_in_tests(wanted, importers):
                uses[f"testing {used}"].append(use)
            continue
        dead += unused
        pending = [one for one in pending if one not in unused]
    return [one for one in dead if not any(one.owner is other.node for other in dead)]


@pytest.mark.slow
def test_every_name_is_used() -> None:
    report(
        [
            f"{name(one.path)}:{one.node.lineno}: {one.name} is used by tests at most: remove it, or add it "
            f"with a reason to KEPT in {HERE}"
            for one in dead_names()
        ]
    )


def test_the_list_of_kept_names_is_true() -> None:
    defined = {path: {one.name for one in definitions(ROOT / path, tree(ROOT / path).body)} for path in KEPT}
    gone = [(path, one) for path, names in KEPT.items() for one in names if one not in defined[path]]
    report([f"{HERE}: remove {one} of {path} from KEPT, it is defined no more" for path, one in gone])
