"""Output of ``mqdssm demo``: its steps, calls and results."""

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.cli.table_layout import layout_of
from mqdssm.model.safe_text import make_visible

if TYPE_CHECKING:
    from mqdssm.cli.output import Output
    from mqdssm.testing.openldap import OpenLdapServer

INDENT_COLUMNS: Final = 5
"""Columns of the terminal to the left of a table."""


class DemoStage:
    """Prints the steps of a demonstration, as text or as one JSON document.

    Attributes:
        steps: what was shown, as JSON can hold it.
    """

    def __init__(self, output: "Output") -> None:
        self._output = output
        self.steps: list[dict[str, Any]] = []
        self._begun = time.monotonic()

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Print a step, with its time at the end."""
        self.steps.append({"title": title, "calls": [], "results": []})
        if not self._output.is_json:
            from rich.rule import Rule
            from rich.text import Text

            head = Text(f"{len(self.steps)}  {title}", style="bold cyan")
            self._output.show(Rule(head, align="left", style="cyan"))
        started = time.monotonic()
        yield
        took = time.monotonic() - started
        self.steps[-1]["seconds"] = round(took, 3)
        self._print_styled(f"   {took:.2f} s\n", "dim")

    def call(self, code: str) -> None:
        """Print the Python call that follows."""
        self.steps[-1]["calls"].append(code)
        if not self._output.is_json:
            from rich.padding import Padding
            from rich.syntax import Syntax

            syntax = Syntax(code, "python", theme="ansi_dark", background_color="default", word_wrap=True)
            self._output.show(Padding(syntax, (0, 0, 0, 3)))

    def command(self, line: str) -> None:
        """Print the equivalent command line."""
        self.steps[-1]["calls"].append(f"$ {line}")
        self._print_styled(f"   $ {line}", "magenta")

    def result(self, text: str) -> None:
        """Print the result of a step."""
        self.steps[-1]["results"].append(text)
        if not self._output.is_json:
            from rich.padding import Padding
            from rich.text import Text

            self._output.show(Padding(Text(f"→ {make_visible(text)}"), (0, 0, 0, 3), expand=False))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table."""
        cells = [[make_visible(cell) for cell in row] for row in rows]
        self.steps[-1]["results"].append({"columns": list(columns), "rows": cells})
        if not self._output.is_json:
            from rich.padding import Padding

            layout = layout_of(columns, cells, self._output.console.width - INDENT_COLUMNS)
            self._output.show(Padding(layout.render(cells, head=True), (0, 0, 0, INDENT_COLUMNS)))

    def text(self, text: str) -> None:
        """Print a text outside the steps."""
        self._print_styled(text, "")

    def end(self, report: Path | None) -> None:
        """Print the JSON document, or the total time and the place of the report."""
        took = time.monotonic() - self._begun
        if self._output.is_json:
            where = {} if report is None else {"report": str(report)}
            self._output.document({"seconds": round(took, 3), **where, "steps": self.steps})
            return
        self._print_styled(f"All of it took {took:.0f} s.", "bold")
        if report is not None:
            self._output.line(f"The report lies in {report}")

    def _print_styled(self, text: str, style: str) -> None:
        if not self._output.is_json:
            from rich.text import Text

            self._output.show(Text(text, style=style))


def login_of(server: "OpenLdapServer") -> dict[str, Any]:
    """Return the log-in of the private directory as keyword arguments."""
    return {"user": server.user, "password": server.password, "ca_file": server.ca_file}
