"""Pages for people have short sentences, as docstrings have (test_tidy_names.py)."""

import re
from collections.abc import Iterator

import pytest
from support.project.source_tree import ROOT, files, name, report

SENTENCE_WORDS_MAX = 28
"""No sentence of a page is longer; language that is read once has fewer than 25 words."""
GENERATED = frozenset({"docs/rules.md"})
NEW_PARAGRAPH = re.compile(r"(?:[*+-]|\d+\.)\s|\.\. ")
"""Beginning of an item of a list."""
NO_PROSE = re.compile(r"[|#<]|!\[")
"""Beginning of a row of a table, a heading, HTML or a picture."""
CODE_FENCE = re.compile(r"```|~~~")
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
END = re.compile(r"(?<=[.!?:;])[*\"”)]*\s+")
"""End of a sentence; a colon and a semicolon end one, too."""


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The first line number and the text of each paragraph and item, without tables, code and headings."""
    lines: list[str] = []
    first, in_code = 0, False
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        stripped = line.strip()
        is_fence = CODE_FENCE.match(stripped) is not None
        is_prose = bool(stripped) and not (in_code or is_fence or NO_PROSE.match(stripped))
        in_code ^= is_fence
        if lines and (not is_prose or NEW_PARAGRAPH.match(stripped)):
            yield first, " ".join(lines)
            lines = []
        if is_prose:
            first = first if lines else number
            lines.append(stripped)


def long_sentences(text: str) -> Iterator[tuple[int, int, str]]:
    """The line, the number of words and the text of each long sentence; code counts as one word."""
    for line, paragraph in prose(text):
        for sentence in END.split(LINK.sub(r"\1", CODE.sub("`…`", paragraph))):
            words = len(sentence.split())
            if words > SENTENCE_WORDS_MAX:
                yield line, words, sentence


def test_sentences_of_pages_are_short() -> None:
    pages = [ROOT / "README.md", *(path for path in files() if path.parent == ROOT / "docs")]
    report(
        [
            f"{name(page)}:{line}: {words} words, at most {SENTENCE_WORDS_MAX}: {sentence}"
            for page in pages
            if page.suffix == ".md" and name(page) not in GENERATED
            for line, words, sentence in long_sentences(page.read_text(encoding="utf-8"))
        ]
    )


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\n\nWORDS\nand more", [3]),
        ("* WORDS\n* WORDS", [1, 2]),
        ("1. short\n2. WORDS.", [2]),
        ("| WORDS |", []),
        ("```text\nWORDS\n```\nshort", []),
        ("HALF; HALF.\nHALF", []),
        ("`WORDS` is one word", []),
        ("HALF [HALF](page.md)", [1]),
    ],
)
def test_long_sentences_are_found_in_prose_alone(text: str, lines: list[int]) -> None:
    words = ["word"] * (SENTENCE_WORDS_MAX + 1)
    text = text.replace("WORDS", " ".join(words)).replace("HALF", " ".join(words[: len(words) // 2 + 1]))
    assert [line for line, _, _ in long_sentences(text)] == lines
