"""Every example in README.md and docs/ does what it says, on a private directory."""

import re
from pathlib import Path

import pytest
from support.project.examples import run_document
from support.project.source_tree import ROOT

from mqdssm.testing import OpenLdapServer

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_EXAMPLES = [
    page for page in PAGES if re.search(r"^```(python|console)$", page.read_text(), re.MULTILINE)
]


@pytest.mark.server
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.name)
def test_examples(page: Path, tmp_path: Path) -> None:
    with OpenLdapServer(durable=False) as server:
        server.add_computer("web01")
        if page.name == "replace-server.md":
            server.add_computer("web02")
        stand_ins = {
            "ldap://127.0.0.1:3890": server.url,
            '"…"': repr(server.password),
            "ca.pem": server.ca_file,
            "cn=admin,dc=example,dc=com": server.user,
        }
        environment = {
            "MQDSSM_URL": server.url,
            "MQDSSM_USER": server.user,
            "MQDSSM_PASSWORD": server.password,
            "MQDSSM_CA_FILE": server.ca_file,
        }
        assert run_document(page, {"environment": environment}, stand_ins, tmp_path) > 0


def test_there_are_examples() -> None:
    assert {"README.md", "guide.md", "testing.md"} <= {page.name for page in WITH_EXAMPLES}
