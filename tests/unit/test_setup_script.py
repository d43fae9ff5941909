"""The script behind `make setup`, as far as it installs nothing."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "setup"


@pytest.mark.parametrize("scope", ["python", "all"])
def test_an_environment_of_another_checkout_is_refused(tmp_path, scope) -> None:
    """Installing there would make the other checkout run this one's package."""
    other, own = tmp_path / "other", tmp_path / "own"
    (other / ".venv").mkdir(parents=True)
    (other / "pyproject.toml").touch()
    (own / ".ci").mkdir(parents=True)
    (own / ".ci" / "setup").write_bytes(SCRIPT.read_bytes())
    (own / ".venv").symlink_to(other / ".venv")
    done = subprocess.run(
        ["bash", own / ".ci" / "setup", scope], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"setup: .venv is a symbolic link to {other / '.venv'}, which belongs to another checkout: "
        "remove the link (rm .venv), then run the same make target again\n"
    )
    assert not list((other / ".venv").iterdir())
