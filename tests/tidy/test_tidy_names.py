"""Names of modules, classes and variables; docstrings that begin plainly."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.project.source_tree import files, name, nodes, report, sources, tree

UNCLEAR_MODULES = frozenset(
    {
        "bodies",
        "changing",
        "closing",
        "companions",
        "computed",
        "deciding",
        "delivered",
        "dice",
        "driven",
        "elsewhere",
        "ending",
        "facts",
        "held",
        "homes",
        "judging",
        "knowledge",
        "made_entry",
        "making",
        "marks",
        "migrated",
        "mirror",
        "needs",
        "nowhere",
        "own",
        "owned",
        "pace",
        "outlets",
        "parts",
        "presence",
        "reading",
        "restoring",
        "settling",
        "shelves",
        "spelt",
        "supervised",
        "telling",
        "there",
        "walk",
        "wanted",
        "work",
    }
)
"""Words that say nothing of a module's subject to somebody who has not read it."""
UNCLEAR_VARIABLES = frozenset(
    {
        "asked",
        "found",
        "heard",
        "held",
        "it",
        "kept",
        "known",
        "made",
        "one",
        "ours",
        "said",
        "shown",
        "taken",
        "theirs",
        "there",
        "thing",
        "told",
        "wanted",
        "what",
        "whom",
    }
)
"""Words that name no value: a variable is named by the noun for what it holds."""
FIELDS_OF_FORMATS = frozenset(
    {
        ("mqdssm/engines/actions.py", "what"),
        ("mqdssm/pipeline/manifest.py", "what"),
        ("mqdssm/pipeline/migrate/plan_file.py", "made"),
        ("mqdssm/pipeline/report/charts.py", "known"),
        ("mqdssm/testing/simulation/ledger.py", "asked"),
        ("mqdssm/wire/fields.py", "known"),
    }
)
"""Fields that keep their words: those of files and reports, and of declarations that other code names."""
BEGINNINGS = (
    "All that",
    "As ",
    "For ",
    "How ",
    "Of ",
    "The same",
    "Those ",
    "What ",
    "When ",
    "Where ",
    "Whether ",
    "Which ",
    "Who ",
    "Whom ",
    "Why ",
    "Whoever ",
    "Whose ",
)
"""Beginnings of docstrings that name no thing and no action: a noun phrase or an imperative stands there."""
PRONOUNS = re.compile(
    r"(?:It|Its|They|Their|We|You|He|She|Both|Those)\b"
    r"|(?:This|That|These)\s+(?:is|are|was|were|has|have|may|must|can|does|needs|goes|happens|comes)\b"
)
"""Beginnings of second paragraphs whose noun stands elsewhere: begin with the noun, or merge the two."""
RIDDLES = re.compile(
    r"\bof it\b|\b[Ww]hoever\b"
    r"|(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bbe )(?<!\bstay )(?<!\bstays )(?<!\ball )(?<!\balways )"
    r"\b[Tt]he same(?=\s*(?:[.,;:|)]|$)"
    r"|\s+(?:for|as|if|with|in|of|to|on|applies|happens|is|has|when|where)\b)"
)
"""Words that stand for a noun somewhere else: say the noun. `The same server` is plain."""
FIRST_LINE_MAX = 79
"""Longest first line of a docstring, without quotes and indentation; more goes into a paragraph below it."""
SENTENCE_WORDS_MAX = 28
"""No docstring of the package has a longer sentence; language that is read once has fewer than 25 words."""
LIST_ITEM = re.compile(r"(?:[*-]|\d+\.)\s|(?:Args|Attributes|Raises|Returns|Yields):$|[\w.*`]+: ")
"""Beginning of a line that begins a sentence of its own: an item, a section, a parameter."""
TABLE_LINE = re.compile(r"^\||[=>]{2}|\S {2,}\S")
"""A line of a table or of an example, which has no sentences."""
WRITTEN_BY_BENCH = "docs/performance.md:"
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def test_modules_are_named_by_their_subject() -> None:
    report(
        [
            f"{name(path)}: rename the module by its subject, in terms of LDAP, MSMQ or Python"
            for path in sources("mqdssm")
            if path.stem in UNCLEAR_MODULES
        ]
    )


SHARED_NAMES = {"QueueManager": "MSMQ's own word: an object of the directory, and what programs send with"}
"""Names of two public classes, and the reason."""


@pytest.mark.slow
def test_public_class_names_are_unique() -> None:
    defined = defaultdict(list)
    for path in sources("mqdssm"):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(name(path))
    report(
        [
            f"{', '.join(places)}: each defines a class {class_name}: give them different names"
            for class_name, places in defined.items()
            if len(places) > 1 and class_name not in SHARED_NAMES
        ]
    )


def bound_names(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the name of each variable, parameter and field of a record of a module."""
    for node in nodes(path):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


@pytest.mark.slow
def test_variables_are_named_by_what_they_hold() -> None:
    report(
        [
            f"{name(path)}:{line}: name {variable} by what it holds: entry, queue, stored_object"
            for path in sources("mqdssm")
            for line, variable in bound_names(path)
            if variable in UNCLEAR_VARIABLES and (name(path), variable) not in FIELDS_OF_FORMATS
        ]
    )


def docstrings() -> Iterator[tuple[str, str]]:
    """The place and the text of each docstring of the package."""
    for path in sources("mqdssm"):
        for node in nodes(path):
            text = ast.get_docstring(node) if isinstance(node, Documented) else None
            if text:
                yield f"{name(path)}:{getattr(node, 'lineno', 1)}", text


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs and items of a docstring, each in one line, without tables and indented examples."""
    lines: list[str] = []
    example_indent: int | None = None
    for line in [*text.splitlines(), ""]:
        indent = len(line) - len(line.lstrip())
        if example_indent is not None and (not line.strip() or indent > example_indent):
            continue
        example_indent = None
        if not line.strip() or TABLE_LINE.search(line.strip()) or LIST_ITEM.match(line.strip()):
            yield " ".join(lines)
            lines = []
        if not TABLE_LINE.search(line.strip()):
            lines.append(line.strip())
        if line.endswith("::"):
            example_indent = indent


def sentences(text: str) -> Iterator[str]:
    """The sentences of a docstring; a colon and a semicolon end one, too."""
    for paragraph in paragraphs(text):
        yield from re.split(r"(?<=[.!?:;])\s+", paragraph)


def test_docstrings_begin_with_a_noun_phrase_or_an_imperative() -> None:
    riddles = [
        f"{place}: begin with a noun phrase or an imperative: {line}"
        for place, text in docstrings()
        for line in text.splitlines()[:1]
        if line.startswith(BEGINNINGS)
    ]
    report(riddles)


def test_second_paragraphs_of_docstrings_begin_with_their_subject() -> None:
    report(
        [
            f"{place}: begin with the noun, or merge this into the first line: {paragraph.strip()[:60]}"
            for place, text in docstrings()
            for paragraph in text.split("\n\n")[1:2]
            if PRONOUNS.match(paragraph.strip())
        ]
    )


@pytest.mark.slow
def test_texts_name_the_thing_again() -> None:
    pages = [path for path in files() if path.suffix == ".md" and name(path).startswith(("README", "docs/"))]
    texts = [*docstrings()]
    for page in pages:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            texts.append((f"{name(page)}:{number}", line))
    report(
        [
            f"{place}: {riddle[0]}: say the noun: …{text[max(0, riddle.start() - 40) : riddle.end() + 20]}…"
            for place, text in texts
            for riddle in RIDDLES.finditer(" ".join(text.split()))
            if not place.startswith(WRITTEN_BY_BENCH)
        ]
    )


def test_first_lines_of_docstrings_are_short() -> None:
    report(
        [
            f"{place}: {len(line)} characters, at most {FIRST_LINE_MAX}: move details to a paragraph: {line}"
            for place, text in docstrings()
            for line in text.splitlines()[:1]
            if len(line) > FIRST_LINE_MAX
        ]
    )


@pytest.mark.slow
def test_sentences_of_docstrings_are_short() -> None:
    counted = (
        (len(sentence.split()), place, sentence)
        for place, text in docstrings()
        for sentence in sentences(text)
    )
    long = [
        f"{place}: {words} words, at most {SENTENCE_WORDS_MAX}: {line}"
        for words, place, line in counted
        if words > SENTENCE_WORDS_MAX
    ]
    report(long)


def test_a_long_sentence_is_found_across_lines_and_in_items() -> None:
    long = " ".join(["word"] * 29)
    text = (
        f"Return.\n\n{long[:60]}\n{long[61:]}.\n\nArgs:\n    x: {long}\n\n::\n\n    {long}\n\na  table {long}"
    )
    assert [len(s.split()) for s in sentences(text) if len(s.split()) > SENTENCE_WORDS_MAX] == [29, 29]
