"""Modules have the size of their subject, and packages their place.

A module below the limit says here why it stands alone.
"""

import tomllib

import pytest
from support.project.source_tree import ROOT, name, report, sources

MODULE_LINES_MIN = 60
SPARK_LINES_MAX = 6_000
HERE = "tests/tidy/test_tidy_modules.py"
REASONS = {
    "mqdssm/cli/server/plans.py": "steps of the commands of servers, roles and tokens",
    "mqdssm/events/input_files.py": "one reader of named files for command line, server and pipeline",
    "mqdssm/server/new_sites.py": "sites without a server, for the control socket and for admissions",
    "mqdssm/store/damage_log.py": "for the LDAP store, and for the thread of a store in drivers",
    "mqdssm/testing/ldap/answers.py": "octets of answers, also for servers of the tests that give one answer",
    "mqdssm/testing/simulation/fast_records.py": "changes all loaded classes: for a command that runs alone",
    "mqdssm/testing/simulation/schedule.py": "simulated time: every part of the simulation imports it",
    "mqdssm/engines/replication/jobs.py": "handlers as generators, which all modules of the engine import",
    "mqdssm/engines/replication/plain_words.py": "one table for notes of the engine, and for logs of stores",
    "mqdssm/testing/openldap_snapshot.py": "loaded only for a test that undoes its changes",
    "mqdssm/testing/server_files.py": "folders of both kinds of private servers",
    "mqdssm/drivers/tcp/peer_recognition.py": "limits what strangers cause, apart from sessions",
    "mqdssm/engines/actions.py": "events and actions that all engines share; each of them imports it",
    "mqdssm/model/closeable.py": "base of sessions, watches and files of all layers",
    "mqdssm/model/filters.py": "public words of every look-up; users import nothing else for them",
    "mqdssm/model/suggestions.py": "one wording of hints, for all layers",
    "mqdssm/model/notice.py": "a light import: whoever sets a call-back needs no messages of the wire",
    "mqdssm/pipeline/frames/arrow.py": "Arrow types of columns, which themselves are loaded without pyarrow",
    "mqdssm/pipeline/without_pandas.py": "a light import: it comes before pyarrow, at every start",
    "mqdssm/samples/forms.py": "a light import: --help shows these values",
    "mqdssm/spark/registration.py": "packed as pyspark_mqdssm, which Spark imports by itself",
    "mqdssm/tables/enterprise.py": "a table of its own: one element, one module",
    "mqdssm/tables/routing_link.py": "a table of its own: one element, one module",
    "mqdssm/tables/site.py": "a table of its own: one element, one module",
    "mqdssm/tables/user.py": "a table of its own: one element, one module",
}
"""Modules that stay small, and the reason."""


def small_modules() -> dict[str, int]:
    """The lines of each module below the limit; what a package exports counts as no module."""
    lines = {
        name(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources("mqdssm")
        if path.name != "__init__.py"
    }
    return {module: count for module, count in lines.items() if count < MODULE_LINES_MIN}


def test_small_modules_have_a_reason() -> None:
    report(
        [
            f"{module}: {count} lines, below {MODULE_LINES_MIN}: merge it into the module of its subject, "
            f"or add to REASONS in {HERE} why it stands alone"
            for module, count in small_modules().items()
            if module not in REASONS
        ]
    )


def test_the_list_of_small_modules_is_true() -> None:
    stale = sorted(REASONS.keys() - small_modules().keys())
    report([f"{HERE}: remove {module} from REASONS, it is small no more" for module in stale])


def test_the_spark_layer_is_small() -> None:
    """What needs no Spark belongs into the pipeline (issue 18)."""
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in sources("mqdssm/spark"))
    if lines > SPARK_LINES_MAX:
        report([f"mqdssm/spark: {lines} lines, more than {SPARK_LINES_MAX}: move parts into mqdssm/pipeline"])


@pytest.mark.parametrize(
    ("library", "owners"),
    [
        ("pyspark", {"spark"}),
        ("pandas", {"spark"}),
        ("pyarrow", {"spark", "pipeline", "samples"}),
        ("ldap3", {"directory", "testing"}),
    ],
)
def test_each_package_has_its_contract_about_libraries(library: str, owners: set[str]) -> None:
    """A new package cannot be forgotten in the contracts of import-linter."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = {name(path).removeprefix("mqdssm/").split("/")[0] for path in sources("mqdssm")}
    bound = {
        module.removeprefix("mqdssm.")
        for contract in settings["tool"]["importlinter"]["contracts"]
        if library in contract.get("forbidden_modules", ())
        for module in contract["source_modules"]
    }
    free = {package.removesuffix(".py") for package in packages} - bound - {"__init__"}
    report(
        [
            f"pyproject.toml: no contract forbids mqdssm.{package} to import {library}"
            for package in sorted(free - owners)
        ]
    )


def test_the_message_names_this_file() -> None:
    assert (ROOT / HERE).is_file()
