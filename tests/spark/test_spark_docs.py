"""The Spark examples of the documentation do what they say."""

import re

from support.project.source_tree import ROOT

import mqdssm
from mqdssm.spark.source import register

EXAMPLE = re.compile(r"^```\{code-block\} python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_examples_of_the_pipelines_page(spark, enterprise, capsys, tmp_path) -> None:
    examples = EXAMPLE.findall((ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8"))
    assert examples
    register(spark)
    with enterprise.connect() as directory:
        directory.create(mqdssm.Queue(pathname="web01\\shown", label="Orders", quota=999))
    stand_ins = {
        "ldaps://dc1.contoso.test": enterprise.server.url,
        "cn=admin,dc=example,dc=com": enterprise.server.user,
        "/run/secrets/reader": str(enterprise.password_file),
        "/data/": f"{tmp_path}/",
        "/var/lib/": f"{tmp_path}/state-",
        '.option("url"': f'.option("cafile", {enterprise.server.ca_file!r}).option("url"',
    }
    scope: dict[str, object] = {"spark": spark}
    for example in examples:
        for words, other in stand_ins.items():
            example = example.replace(words, other)  # noqa: PLW2901
        exec(compile(example, "docs/pipeline.md", "exec"), scope)
    shown = capsys.readouterr().out
    assert "web01\\shown" in shown
    assert "web01\\orders" not in shown
    changes = spark.read.parquet(str(tmp_path / "queue-changes"))
    assert changes.where("Change = 'existing' and Pathname = 'web01\\\\shown' and Quota = 999").count() == 1
