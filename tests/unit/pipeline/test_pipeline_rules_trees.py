"""Trees of rules: what is kept of ours is what sqlglot makes of them, and no rule of ours needs sqlglot."""

import subprocess
import sys
from importlib.resources import files

import pytest
from support.spark.without_java import environment_without_java

from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.rules.trees import format_trees


def test_the_file_is_of_these_rules() -> None:
    kept = files("mqdssm.pipeline.validate.rules").joinpath("trees.json").read_text(encoding="utf-8")
    assert kept == format_trees(), "make schema"


@pytest.mark.slow
def test_rules_of_ours_need_no_parser(tmp_path) -> None:
    code = """
from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.rules.rule import Wrong
from mqdssm.pipeline.validate.rules.trees import parse_sql
for rule in RULES:
    rule.columns(), rule.others()
    if isinstance(rule, Wrong):
        parse_sql(rule.condition)
print(len(RULES))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment_without_java(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == f"{len(RULES)}\n", done.stderr
