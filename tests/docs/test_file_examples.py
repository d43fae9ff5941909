"""Every configuration file that the documentation shows can be read by the code that reads such files."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import mutants
import pytest
import yaml
from support.project.source_tree import ROOT
from support.replication.queue_managers import key_of

from mqdssm.cli.settings import CommandSettings, load
from mqdssm.errors import ConfigError
from mqdssm.pipeline.migrate.sids import load_sid_map
from mqdssm.pipeline.mqis.mapping import load_mapping
from mqdssm.pipeline.sync import load_declaration
from mqdssm.pipeline.validate.nightly.run import load_acceptance
from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.rules.own_rules import load as load_rules
from mqdssm.server.config import MetricsSection, ServerConfig, encode_keys

PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(toml|yaml|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[Any]:
    """The blocks of a language in the documentation, each with its page."""
    return [
        pytest.param(page.name, text, id=f"{page.name}-{number}")
        for page in PAGES
        for number, (found, text) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), 1)
        if found == language
    ]


def read_connections(file: Path) -> None:
    names = [name for name in tomllib.loads(file.read_text()) if name != "default"]
    assert names == ["connections"]
    for connection in tomllib.loads(file.read_text())["connections"]:
        settings = load({}, config=file, connection=connection, environment=False).settings
        assert isinstance(settings, CommandSettings)
        assert settings.url


def read_server(file: Path) -> None:
    keys = encode_keys(key_of("PEC").public_keys())
    file.write_text(file.read_text().replace("…", keys))
    config = ServerConfig.read(file)
    assert config.settings().machine_name == config.server.machine_name
    assert config.tcp_settings().sessions.window_size
    assert config.trusted_senders()


def read_metrics(file: Path) -> None:
    (section,) = tomllib.loads(file.read_text()).items()
    assert section[0] == "metrics"
    assert MetricsSection(**section[1]).address


def read_migration(file: Path) -> None:
    assert load_sid_map(file).sids if "[sids]" in file.read_text() else load_mapping(file)


def read_rules(file: Path) -> None:
    rule_file = load_rules(file, RULES)
    accepted = load_acceptance(file, [rule.id for rule in (*RULES, *rule_file.own)])
    assert rule_file.own or any(accepted)


READERS: Final[Mapping[str, Callable[[Path], Any]]] = {
    "commands.md": read_connections,
    "directory-server-process.md": read_server,
    "hacking.md": mutants.read_list,
    "migration.md": read_migration,
    "monitoring.md": read_metrics,
    "nightly.md": read_rules,
    "validation.md": read_rules,
}
"""Page -> function that reads the files that its TOML blocks show."""


@pytest.mark.parametrize(("page", "text"), blocks("toml"))
def test_toml_is_read(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "example.toml"
    file.write_text(text, encoding="utf-8")
    READERS[page](file)


@pytest.mark.parametrize(
    ("page", "text"), [block for block in blocks("toml") if block.values[0] != "hacking.md"]
)
def test_a_misspelt_table_is_noticed(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "example.toml"
    file.write_text(f"{text}\n[misspelt]\nsetting = 1\n", encoding="utf-8")
    with pytest.raises((ConfigError, AssertionError, ValueError)):
        READERS[page](file)


@pytest.mark.parametrize(("page", "text"), blocks("json"))
def test_json_is_read(page: str, text: str) -> None:
    assert all(isinstance(json.loads(line), dict) for line in text.splitlines()), page


@pytest.mark.parametrize(
    ("page", "text"), [block for block in blocks("yaml") if block.values[0] == "sync.md"]
)
def test_declarations_are_read(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "declared.yaml"
    file.write_text(text, encoding="utf-8")
    assert load_declaration(file).machines, page


@pytest.mark.parametrize(
    ("page", "text"), [block for block in blocks("yaml") if block.values[0] != "sync.md"]
)
def test_alarms_name_metrics_of_the_page(page: str, text: str) -> None:
    documented = set(re.findall(r"^\| `(mqdssm_\w+)`", (ROOT / "docs" / page).read_text(), re.MULTILINE))
    (group,) = yaml.safe_load(text)["groups"]
    assert len(group["rules"]) > 3
    for rule in group["rules"]:
        assert rule.keys() <= {"alert", "expr", "for"}
        named = set(re.findall(r"\bmqdssm_\w+", rule["expr"]))
        assert named
        assert named <= documented, rule["alert"]
