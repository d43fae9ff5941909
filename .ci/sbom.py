"""The software bill of materials: CycloneDX 1.6 of the locked dependencies, without the network.

It is the same for the same lock files: the serial number follows from them, no time stands in it.
"""

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from lockfile import KERBEROS_LOCK, LOCK, ROOT, entries

HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(text: str) -> Iterator[dict[str, Any]]:
    """Return a component for each entry of a lock file; versions of other systems are entries, too."""
    for name, version, block in entries(text):
        purl = f"pkg:pypi/{name}@{version}"
        # of the wheels and the source, of which one is installed
        hashes = [{"alg": "SHA-256", "content": one} for one in HASH.findall(block)]
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": str(version),
            "purl": purl,
            "externalReferences": [{"type": "distribution", "url": purl, "hashes": hashes}],
        }


def document(project: dict[str, Any], locks: Sequence[str]) -> dict[str, Any]:
    """Return the bill of a project with these lock files."""
    own = f"pkg:pypi/{project['name']}@{project['version']}"
    found = [one for text in locks for one in components(text)]
    described = {
        "type": "application",
        "bom-ref": own,
        "name": project["name"],
        "version": project["version"],
        "description": project["description"],
        "licenses": [{"license": {"id": project["license"]}}],
        "purl": own,
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": UUID(bytes=sha256("".join(locks).encode()).digest()[:16], version=4).urn,
        "version": 1,
        "metadata": {"component": described},
        "components": found,
        "dependencies": [{"ref": own, "dependsOn": [one["bom-ref"] for one in found]}],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the bill to a file."""
    parser = argparse.ArgumentParser(description="Write the software bill of materials, CycloneDX 1.6.")
    parser.add_argument("file", type=Path)
    file: Path = parser.parse_args(arguments).file
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bill = document(project, [one.read_text(encoding="utf-8") for one in (LOCK, KERBEROS_LOCK)])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{file}: {len(bill['components'])} components\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
