"""server.toml follows the role that the directory has (decision T133)."""

from pathlib import Path
from uuid import UUID

import pytest

from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError
from mqdssm.server.config import ServerConfig, ServerSection
from mqdssm.server.identity_file import write_identity

IDS = {"machine_id": UUID(int=1), "site_id": UUID(int=2)}
PSC = f"""# of Paris
[server]
machine_name = "PSC01"  # in rack 7
machine_id = "{UUID(int=1)}"
role = "PSC"  # at the first start
enterprise = "Contoso"
site = 'Paris'
site_id = "{UUID(int=2)}"
pec_name = 'PEC01'

[transport]   # [server]
listen = "127.0.0.1:11802"
hosts.pec01 = "127.0.0.1:11801"

[store]
user = "role = 'PSC'"
"""


def section(role: Role, pec_name: str, psc_name: str = "", machine_name: str = "PSC01") -> ServerSection:
    return ServerSection(
        machine_name=machine_name,
        role=role,
        enterprise="Contoso",
        site="Paris",
        pec_name=pec_name,
        psc_name=psc_name,
        **IDS,
    )


def file_of(folder: Path, text: str = PSC) -> Path:
    file = folder / "server.toml"
    file.write_bytes(text.encode())
    return file


def test_only_the_lines_of_the_identity_change(tmp_path):
    file = file_of(tmp_path)
    assert write_identity(file, section(Role.BSC, "PEC01", "BSC01"))
    assert file.read_text() == PSC.replace('role = "PSC"  #', 'role = "BSC"  #').replace(
        "pec_name = 'PEC01'", 'pec_name = "PEC01"'
    ).replace("[server]\nmachine", '[server]\npsc_name = "BSC01"\nmachine')
    assert ServerConfig.read(file).server == section(Role.BSC, "PEC01", "BSC01")
    assert write_identity(file, section(Role.PEC, "PSC01"))
    assert ServerConfig.read(file).server == section(Role.PEC, "PSC01")
    assert "psc_name" not in file.read_text()
    assert write_identity(file, section(Role.PEC, "Psc-'2'", machine_name="Psc-'2'"))
    assert ServerConfig.read(file).server.machine_name == "Psc-'2'"
    assert not write_identity(file, section(Role.PEC, "Psc-'2'", machine_name="Psc-'2'"))
    assert "# in rack 7" in file.read_text()


def test_a_file_that_is_right_is_not_touched(tmp_path):
    file = file_of(tmp_path)
    before = file.stat()
    assert not write_identity(file, section(Role.PSC, "PEC01"))
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_line_ends_permissions_and_links_stay(tmp_path):
    target = file_of(tmp_path, PSC.replace("\n", "\r\n"))
    target.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(target)
    assert write_identity(link, section(Role.PSC, "PEC02"))
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert target.read_bytes() == PSC.replace("\n", "\r\n").replace("'PEC01'", '"PEC02"').encode()


def test_settings_of_other_tables_stay(tmp_path):
    others = "[server2]\nrole = 'x'\n[server]\n", "\n[[server3]]\nrole = 'x'\n[server4]\nrole = 'x'\n"
    text = PSC.replace("[server]\n", others[0], 1) + others[1]
    file = file_of(tmp_path, text)
    assert write_identity(file, section(Role.PSC, "PEC02"))
    assert file.read_text() == text.replace("'PEC01'", '"PEC02"')


@pytest.mark.parametrize(
    "text",
    [
        PSC.replace("pec_name = 'PEC01'", "pec_name = '''PEC01'''"),
        PSC.replace("pec_name = 'PEC01'", '"pec_name" = "PEC01"'),
        PSC.replace("[server]\n", "[transport.server]\n", 1),
        "server = { role = 'PSC', machine_name = 'PSC01', pec_name = 'PEC01' }\n",
    ],
    ids=["multi-line", "quoted key", "other table", "inline table"],
)
def test_a_file_of_an_unusual_form_is_left_to_its_editor(tmp_path, text):
    file = file_of(tmp_path, text)
    with pytest.raises(ConfigError, match=r"server\.toml has"):
        write_identity(file, section(Role.PSC, "PEC02"))
    assert file.read_text() == text


@pytest.mark.parametrize("text", ["", "[transport]\n", "no toml", "\udcff"])
def test_files_that_have_no_identity(tmp_path, text):
    file = tmp_path / "server.toml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=r"server\.toml"):
        write_identity(file, section(Role.PSC, "PEC02"))
    with pytest.raises(ConfigError, match="cannot be read"):
        write_identity(tmp_path / "missing", section(Role.PSC, "PEC02"))


def test_a_crash_leaves_the_old_file_or_the_new_one(tmp_path, monkeypatch):
    file = file_of(tmp_path)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(ConfigError, match="cannot be written: No space left"):
        write_identity(file, section(Role.PSC, "PEC02"))
    assert file.read_text() == PSC
    assert [path.name for path in tmp_path.iterdir()] == ["server.toml"]
