"""HTML pages of one file: all is in them, nothing is fetched, and nothing that a directory holds is markup.

The policy in a page's head (CSP) lets a browser use the page's own style and script, by their hashes, and
nothing else: even markup that got through escaping could not run, or tell anybody that the page was opened.
"""

from base64 import b64encode
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.errors import ConfigError, MissingPackageError
from mqdssm.model.escapes import visible
from mqdssm.pipeline.atomic_file import write_atomically

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

CELL_CHARS_MAX: Final = 240
"""Characters of a value that are shown."""


def check_page(path: Path) -> None:
    """Make sure, before hours of work, that a page can be made and written.

    Raises:
        ConfigError: jinja2 is missing, or the folder of the file is.
    """
    _environment()
    if path.is_dir():
        raise ConfigError(f"{path} is a folder: name a file for the report")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"the folder {path.absolute().parent} does not exist: make it, or name another one")


def write_page(path: Path, template: str, **values: Any) -> None:
    """Render a page and write it; whoever reads the file sees the old one or the new one, whole.

    Args:
        path: of the file.
        template: its name.
        values: what it shows.

    Raises:
        ConfigError: jinja2 is missing, or the file cannot be written.
    """
    check_page(path)
    # for its owner alone: whoever else may read the report is the owner's business
    write_atomically(path, (rendered(template, **values),))


def rendered(template: str, **values: Any) -> str:
    """Render a page."""
    style, script = _text("style.css"), _text("filter.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        _environment()
        .get_template(template)
        .render(**values, style=style, script=script, policy=policy)
        .encode("utf-8", "backslashreplace")
        .decode("utf-8")
    )


def shown(value: object, limit: int = CELL_CHARS_MAX) -> str:
    """A value as a page shows it: not too long, and characters that nobody would see are written out."""
    text = "" if value is None else str(value)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return visible(text)


def dn(value: object) -> "Markup":
    """A DN as a page shows it: lines break behind its commas, where they can."""
    from markupsafe import Markup, escape

    return Markup(",<wbr>").join(escape(piece) for piece in shown(value).split(","))


def moment(value: datetime) -> str:
    """A time as a page shows it."""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@lru_cache(maxsize=1)
def _environment() -> "Environment":
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingPackageError("jinja2") from error
    made = Environment(
        loader=PackageLoader("mqdssm.pipeline.report"),
        autoescape=True,  # all of it, whatever a template is called
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"shown": shown, "dn": dn, "moment": moment, "number": "{:,}".format}
    return made


@lru_cache(maxsize=2)
def _text(name: str) -> str:
    return files("mqdssm.pipeline.report").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    # what a browser hashes is the text between the tags, which begins and ends with a line break
    return "sha256-" + b64encode(sha256(f"\n{text}\n".encode()).digest()).decode()
