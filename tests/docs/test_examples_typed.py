"""What README.md and the guide show passes mypy --strict as users run it; typing mistakes do not."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.project.source_tree import ROOT

PAGES = {"README.md": "readme", "docs/guide.md": "guide", "docs/testing.md": "testing"}
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

GOOD = """
from contextlib import closing
from datetime import UTC, datetime
from uuid import UUID

import mqdssm


def read(directory: mqdssm.Directory, site: UUID, sid: mqdssm.Sid, path: mqdssm.PathName) -> None:
    with closing(directory.search(mqdssm.Queue)) as queues:
        first: mqdssm.Queue = next(queues)
    directory.search(mqdssm.Site).close()
    handle: mqdssm.Handle[mqdssm.Site] = directory.read_begin(mqdssm.Site)
    name: str | None = directory.read_next(handle).name
    directory.read_end(handle)
    identifier: UUID | None = first.identifier
    level: mqdssm.PrivacyLevel = first.privacy_level
    first.privacy_level = "Body"
    first.pathname = path
    manager = mqdssm.QueueManager(site_identifier_list=[site], create_time=datetime.now(UTC))
    manager.site_identifier_list = (site, str(site))
    sites: tuple[UUID, ...] = manager.site_identifier_list
    user = mqdssm.User(security_identifier=sid, certificate_digest_list=[b"0" * 16])
    print(name, identifier, level, sites, user)


def find(directory: mqdssm.Directory, site: UUID, moment: datetime) -> None:
    paid: mqdssm.Condition[mqdssm.Queue] = mqdssm.Queue.label.startswith("Paid") & (mqdssm.Queue.quota > 1000)
    wanted = paid | ~mqdssm.Queue.transactional | (mqdssm.Queue.create_time < moment)
    directory.search(mqdssm.Queue, wanted).close()
    directory.search(mqdssm.Queue, mqdssm.Queue.transactional, sort=mqdssm.SortKey("Label")).close()
    directory.search(mqdssm.Queue, [wanted, mqdssm.Filter("Label", "!=", "x")]).close()
    one: mqdssm.Queue = directory.read(mqdssm.Queue, mqdssm.Queue.identifier == site)
    levels = mqdssm.Queue.privacy_level.in_([mqdssm.PrivacyLevel.BODY, "None"])
    machines = mqdssm.QueueManager.site_identifier_list.contains(site) & mqdssm.QueueManager.clustered
    handle = directory.read_begin(mqdssm.QueueManager, machines)
    directory.read_end(handle)
    page: mqdssm.SearchPage[mqdssm.Queue] = directory.search_page(mqdssm.Queue, wanted, limit=5)
    assert directory.count(mqdssm.Queue, wanted) < len(page.items)
    print(one.quota + 1, one.pathname, levels, ~mqdssm.Queue.multicast_address.exists())
"""
SEARCH = "mqdssm.connect('ldap://h').search"
BAD = {
    "mqdssm.Queue.lable": "attr-defined",
    "mqdssm.Queue.quota > 'x'": "operator",
    "(mqdssm.Queue.quota == 'x') & mqdssm.Queue.transactional": "operator",
    f"{SEARCH}(mqdssm.Queue, mqdssm.Queue.quota == 'x')": "arg-type",
    f"{SEARCH}(mqdssm.Queue, mqdssm.Site.name == 'x')": "misc",
    f"{SEARCH}(mqdssm.Queue, mqdssm.Queue.label)": "arg-type",
    "mqdssm.Queue.label.startswith(1)": "arg-type",
    "mqdssm.Queue.quota.startswith('1')": "attr-defined",
    "mqdssm.Queue.label & mqdssm.Queue.transactional": "operator",
    "mqdssm.Queue.privacy_level.in_([b'Body'])": "list-item",
    "mqdssm.Quue()": "attr-defined",
    "mqdssm.testing.OpenLdapServr()": "attr-defined",
    'mqdssm.Queue(labell="x")': "call-arg",
    "mqdssm.Queue(label=1)": "arg-type",
    "mqdssm.Queue(privacy_level=b'Body')": "arg-type",
    "mqdssm.QueueManager(site_identifier_list=1)": "arg-type",
    "mqdssm.Queue().lable": "attr-defined",
    "mqdssm.connect('ldap://h').read_next(mqdssm.Handle[mqdssm.Site](1)).label": "attr-defined",
}


def checked(folder: Path, *options: str) -> list[str]:
    """What mypy says against the files of a folder, without any configuration of ours."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context"]
    cache = ROOT / ".cache" / "mypy-examples"
    done = subprocess.run(
        [*command, "--cache-dir", str(cache), *options, "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout.splitlines()


@pytest.mark.timeout(300)
def test_examples_pass_and_mistakes_do_not(tmp_path: Path) -> None:
    for page, name in PAGES.items():
        blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
        assert blocks
        (tmp_path / f"example_{name}.py").write_text("\n".join(blocks), encoding="utf-8")
    (tmp_path / "good.py").write_text(GOOD)
    bad = ["import mqdssm", "import mqdssm.testing", *BAD]
    (tmp_path / "bad.py").write_text("\n".join(bad) + "\n")
    said = checked(tmp_path, "--config-file=")
    assert [line for line in said if not line.startswith("bad.py:")] == []
    found = {
        int(match[1]): match[2]
        for line in said
        if (match := re.fullmatch(r"bad\.py:(\d+): error: .* \[([a-z-]+)\]", line))
    }
    assert found == dict(enumerate(BAD.values(), 3))


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_the_plugin_of_pydantic_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nplugins = pydantic.mypy\n[pydantic-mypy]\ninit_typed = True\n"
    )
    assert checked(tmp_path) == []
