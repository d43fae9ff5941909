"""The project's own files, for the tests that read them; works without git, as in an unpacked archive."""

import ast
import gc
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import conformance
import pytest

ROOT: Final = Path(__file__).resolve().parents[3]
# Folders that hold no source: what .gitignore names, and git itself.
OUTSIDE: Final = frozenset(
    {".git", ".venv", ".cache", ".hypothesis", "__pycache__", "dist", "build", "spark-warehouse", "_build"}
)


@cache
def files() -> tuple[Path, ...]:
    """Every file of the project, sorted."""

    def walk() -> Iterator[Path]:
        for folder, below, names in os.walk(ROOT):
            here = Path(folder)
            below[:] = [
                name for name in below if name not in OUTSIDE and not name.endswith(("_cache", ".egg-info"))
            ]
            yield from (here / name for name in names if name not in OUTSIDE)  # .git of a worktree is a file

    return tuple(sorted(walk()))


def sources(*folders: str) -> tuple[Path, ...]:
    """The Python files below the folders (all of the project without any)."""
    bases = [ROOT / folder for folder in folders] or [ROOT]
    return tuple(
        path for path in files() if path.suffix == ".py" and any(path.is_relative_to(base) for base in bases)
    )


def name(path: Path) -> str:
    """The path as it is written in messages, from the project's folder."""
    return path.relative_to(ROOT).as_posix()


def report(problems: list[str]) -> None:
    """Fail a test with its problems, each of which begins with the file to edit; pass without any."""
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


@cache
def marks() -> tuple[conformance.Mark, ...]:
    """Every spec mark of the tests."""
    return tuple(conformance.read_marks())


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of one Python file."""
    was_enabled = gc.isenabled()  # not while tests are collected
    gc.disable()  # trees are no garbage; looking for some among them takes three times as long as the parser
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    finally:
        if was_enabled:
            gc.enable()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """The nodes of the syntax tree of one Python file as `ast.walk` gives them, without contexts of names."""
    found: list[ast.AST] = [tree(path)]
    for node in found:  # grows meanwhile
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                found.append(value)
    return tuple(found)


def last_name(node: ast.expr) -> str:
    """The last part of a dotted name, without arguments: `cached_property` of `functools.cached_property`."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def texts(path: Path) -> Iterator[ast.Constant]:
    """The texts in one Python file that are no docstrings; of f-strings, each part between the braces."""
    docstrings = {
        id(statement.value)
        for node in nodes(path)
        if isinstance(body := getattr(node, "body", None), list)
        for statement in body
        if isinstance(statement, ast.Expr)
    }
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node
