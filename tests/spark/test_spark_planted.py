"""Planted defects against rules: every rule finds all its own and nothing else, whatever the source.

One seed in one form, without Spark, is in `tests/servers/test_planted.py`.
"""

import pytest
from support.enterprises.planted import assert_equal, directory, tables

from mqdssm.pipeline.export.run import export
from mqdssm.pipeline.validate.rules.rule import ALL
from mqdssm.pipeline.validate.run import validation
from mqdssm.testing.openldap import OpenLdapServer

SEEDS = range(10)
ENGINES = ("local", "spark")


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_in_tables(spark, tmp_path, seed) -> None:
    wanted = tables(tmp_path / "x", seed)
    for engine in ENGINES:
        with validation(mqis=tmp_path / "x", engine=engine) as found:
            assert_equal(wanted, found.findings)


@pytest.fixture(scope="module")
def server():
    with OpenLdapServer(durable=False) as made:
        yield made


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_directory_and_in_an_export_of_it(spark, server, tmp_path, seed) -> None:
    wanted = directory(server, tmp_path / "x", seed)
    access = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
    for engine in ENGINES:
        with validation(urls=[server.url], access=access, engine=engine) as found:
            assert_equal(wanted, found.findings)
    export(server.url, ALL, tmp_path / "y", **access)
    for engine in ENGINES:
        with validation(tmp_path / "y", engine=engine) as found:
            assert_equal(wanted, found.findings)
