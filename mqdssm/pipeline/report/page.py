"""HTML pages that are one file each and load nothing.

Values of a directory are never markup.
The policy in a page's head (CSP) allows only the page's own style and script, by their hashes. Even markup
that escaping missed could neither run nor report that the page was opened.
"""

from base64 import b64encode
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mqdssm.errors import ConfigError, MissingPackageError
from mqdssm.events.durable_files import write_atomically
from mqdssm.model.safe_text import make_visible

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

REPORTS: Final = "mqdssm.pipeline.report"
CELL_CHARS_MAX: Final = 240
"""Characters of a value that are shown."""


def check_page(path: Path) -> None:
    """Check, before hours of work, that a page can be made and its folder exists.

    Raises:
        ConfigError: jinja2 is missing, or the folder of the file is.
    """
    _make_environment()
    if path.is_dir():
        raise ConfigError(f"{path} is a folder: name a file for the report")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"the folder {path.absolute().parent} does not exist: make it, or name another one")


def write_page(path: Path, template: str, **values: Any) -> None:
    """Render a page and write it to a file atomically.

    Args:
        path: of the file.
        template: its name.
        values: what it shows.

    Raises:
        ConfigError: jinja2 is missing, or the file cannot be written.
    """
    check_page(path)
    # only the owner may read the file; the owner decides who else may
    write_atomically(path, (render_report(template, **values),))


def render_report(template: str, **values: Any) -> str:
    """Return a report as text."""
    return render_page(template, **values).text


class RenderedPage(NamedTuple):
    """Page as text.

    Attributes:
        text: the page.
        policy: its Content-Security-Policy, which its head has, too.
    """

    text: str
    policy: str


def render_page(
    template: str, *, package: str = REPORTS, script: str = "filter.js", more: str = "", **values: Any
) -> RenderedPage:
    """Render a page.

    Args:
        template: its name.
        package: package of the template and the script; parts and style are those of the reports.
        script: name of the script.
        more: directives that are added to the policy, each with a semicolon and a space at its end.
        values: what the page shows.

    Raises:
        MissingPackageError: jinja2 is not installed.
    """
    style_text, script_text = _read_template(REPORTS, "style.css"), _read_template(package, script)
    policy = (
        f"default-src 'none'; style-src '{_hash_text(style_text)}'; script-src '{_hash_text(script_text)}'; "
        f"{more}base-uri 'none'; form-action 'none'"
    )
    page = _make_environment(package).get_template(template)
    text = page.render(**values, style=style_text, script=script_text, policy=policy)
    return RenderedPage(text.encode("utf-8", "backslashreplace").decode("utf-8"), policy)


def format_value(value: object, limit: int = CELL_CHARS_MAX) -> str:
    """Return a value as a page shows it.

    The text is shortened, and its invisible characters are escaped.
    """
    text = "" if value is None else str(value)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return make_visible(text)


def format_dn(value: object) -> "Markup":
    """Return a DN as a page shows it: lines may break after its commas."""
    from markupsafe import Markup, escape

    return Markup(",<wbr>").join(escape(piece) for piece in format_value(value).split(","))


def format_moment(value: datetime) -> str:
    """Return a time as a page shows it, in UTC."""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@lru_cache(maxsize=2)
def _make_environment(package: str = REPORTS) -> "Environment":
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingPackageError("jinja2") from error
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, REPORTS))]),
        autoescape=True,  # in all templates, whatever their names
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": format_value,
        "dn": format_dn,
        "moment": format_moment,
        "number": "{:,}".format,
    }
    return environment


@lru_cache(maxsize=3)
def _read_template(package: str, name: str) -> str:
    return files(package).joinpath("templates", name).read_text(encoding="utf-8")


def _hash_text(text: str) -> str:
    # a browser hashes the text between the tags, which begins and ends with a line break
    return "sha256-" + b64encode(sha256(f"\n{text}\n".encode()).digest()).decode()
