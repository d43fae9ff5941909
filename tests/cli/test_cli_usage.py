"""What the command line says about itself, and about what was typed wrongly; no server is needed."""

import json
import sys

import pytest


def test_version(alone):
    assert alone("--version").stdout == "mqdssm 0.1.0\n"


COMMANDS = (
    *("demo", "sandbox", "schema", "doctor", "create", "read", "list", "write", "delete", "resolve"),
    *("export", "validate", "support-bundle", "discover", "discovery-server"),
    *("send", "receive", "sync", "orphans", "topology", "restore", "replace-server"),
)


def test_help_lists_every_command_and_the_exit_codes(alone):
    shown = alone("--help").stdout
    for name in COMMANDS:
        assert f"│ {name} " in shown
    assert "3 not connected, 4 not found" in shown


@pytest.mark.parametrize(
    "path",
    [
        *((name,) for name in COMMANDS if name not in {"sandbox", "schema", "resolve"}),
        *(("sandbox", name) for name in ("start", "stop", "status")),
        *(("schema", name) for name in ("show", "ldif", "check")),
        *(("resolve", name) for name in ("alias", "list")),
    ],
    ids=" ".join,
)
def test_every_command_has_help_with_examples(alone, path):
    shown = alone(*path, "--help").stdout
    assert "Examples" in shown
    assert f" mqdssm {' '.join(path)}" in shown.partition("Examples")[2]
    assert "--output" in shown
    assert "--password " not in shown


@pytest.mark.parametrize("name", ["sandbox", "schema", "resolve"])
def test_groups_show_what_they_have(alone, name):
    assert "Commands" in alone(name, code=2).output
    assert alone(name, "--help").stdout


def test_nothing_typed_shows_help(alone):
    assert "Commands" in alone(code=2).output


WRONG = [
    ("lst", "No such command 'lst'. Did you mean 'list'? (see 'mqdssm --help')"),
    ("--zzz", "No such option: --zzz (see 'mqdssm --help')"),
    ("list queue --zzz", "No such option: --zzz (see 'mqdssm list --help')"),
    ("list queue --password x", "No such option: --password (Possible options: --password-file, "),
    ("list queue --password=x", "No such option: --password (Possible options: --password-file, "),
    ("list", "Missing argument 'TYPE'"),
    ("list queue -o xml", "Invalid value for '--output' / '-o': 'xml' is not one of 'table', 'json'"),
    ("list queue --tls ssl", "Invalid value for '--tls': 'ssl' is not one of 'ldaps', 'starttls', 'none'"),
    ("list queue --filter", "Option '--filter' requires an argument (see 'mqdssm"),
    ("list queue more", "Got unexpected extra argument(s) (more)"),
    ("resolve alias", "Missing argument 'DN'"),
    ("sandbox start", "Missing argument 'DIR'"),
    ("export --type queue", "Missing option '--to'"),
    ("export --type queues --to x", "Invalid value for '--type': 'queues' is not one of 'all', 'queue'"),
    (
        "inventory /tmp --spark-conf spark.hadoop.fs.s3a.secret.key=x",
        "--spark-conf spark.hadoop.fs.s3a.secret.key would show its value to everybody on this machine: ",
    ),
    (
        "inventory /tmp --spark-conf spark.jars.repositories=https://a:b@repo/maven",
        "--spark-conf spark.jars.repositories would show its value to everybody on this machine: ",
    ),
    (
        "export --to x --engine local --spark-master local[2]",
        "--engine local needs no Spark: leave --spark-master, --spark-conf and --spark-shared out",
    ),
    *(
        (f"{command} jdbc:postgresql://127.0.0.1/mqis", "a database is read by plan, migrate and diff: give ")
        for command in (
            "validate --mqis",
            "validate",
            "inventory --mqis",
            "topology --for kafka --to x --mqis",
        )
    ),
    ("export --to x --engine spark --workers 2", "workers are those of the local engine"),
    ("export --to x --workers 0", "Invalid value for '--workers'"),
    ("export --dialect ad --to x", "--dialect is for --format ldif alone, not for parquet: leave it out"),
    (
        "export --format csv --compression zstd --to x",
        "--compression is for --format parquet alone, not for ",
    ),
    ("schema ldif --format xml", "Invalid value for '--format': 'xml' is not one of 'config', 'schema'"),
    ("schema ldif --format base-tree --root nothing", "'nothing' is no distinguished name"),
    ("schema ldif --format base-tree --root o=x", "the root of the tree has to begin with DC="),
]


@pytest.mark.parametrize(("typed", "words"), WRONG, ids=[typed for typed, _ in WRONG])
def test_usage_errors_are_one_line(alone, typed, words):
    assert alone.error(*typed.split(), code=2).startswith(words)


def test_errors_for_programs_are_json(alone):
    result = alone("read", "queue", "-o", "json", code=2)
    assert json.loads(result.stderr) == {
        "error": "UsageProblem",
        "message": "which queue? give an Attribute=Value, or use 'mqdssm list queue'",
        "exit_code": 2,
    }
    result = alone("read", "queue", "Label=x", "--url", "ldap://127.0.0.1:1", "-o", "json", code=3)
    said = json.loads(result.stderr)
    assert said == {
        "error": "DirectoryNotConnected",
        "message": "ldap://127.0.0.1:1: nobody listens there (connection refused)",
        "exit_code": 3,
        "result": "DirectoryNotConnected",
        "dn": None,
        "ldap_code": None,
        "server_text": "",
        "hint": "is the server running, and is the port right?",
    }
    assert result.stdout == ""


def test_debug_shows_where(alone, monkeypatch):
    from typer.testing import CliRunner

    from mqdssm.cli.main import app

    args = ["read", "queue", "Label=x", "--url", "ldap://127.0.0.1:1", "--debug"]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 3
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-2].startswith("error: ldap://127.0.0.1:1: nobody listens there")
    assert result.stdout == ""


def test_an_error_that_nobody_thought_of_has_no_traceback_either(alone, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("boom\x1b[2J")

    monkeypatch.setattr("mqdssm.cli.objects.arguments.assignments_of", broken)
    monkeypatch.setattr("mqdssm.cli.objects.queries.assignments_of", broken)
    said = alone.error("read", "queue", "Label=x", code=6)
    assert said == r"unexpected RuntimeError: boom\x1b[2J; --debug shows where"


def test_interrupted(alone, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("mqdssm.cli.objects.queries.assignments_of", interrupted)
    assert alone.error("read", "queue", "Label=x", code=130) == "interrupted"


def test_without_java_everything_but_spark_works(alone, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for args in (
        ("export", "--type", "queue", "--to", str(tmp_path / "x"), "--engine", "spark"),
        ("validate", str(tmp_path), "--engine", "spark"),
        ("demo", "--spark"),
    ):
        said = alone.error(*args, code=6)
        assert "there is no" in said
        assert "install one" in said
    assert alone.error("demo", "--spark", code=6).endswith("or see all the rest: mqdssm demo --no-spark")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("engine", "package", "extra"),
    [("local", "pyarrow", "pipeline"), ("spark", "pyspark", "spark"), ("auto", "pyarrow", "pipeline")],
)
def test_without_its_packages_export_says_what_to_install(
    alone, monkeypatch, tmp_path, engine, package, extra
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "pyspark.sql", raising=False)  # other tests of the worker have a session
    said = alone.error("export", "--type", "queue", "--to", str(tmp_path / "x"), "--engine", engine, code=6)
    assert said == f"this needs the Python package {package}: pip install 'mqdssm[{extra}]'"


def test_without_slapd_demo_and_sandbox_say_what_to_install(alone, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("mqdssm.testing.openldap_config.PLACES_OF_PROGRAMS", ())
    assert "apt-get install slapd" in alone.error("demo", "--no-spark", code=6)
    assert "apt-get install slapd" in alone.error("sandbox", "start", str(tmp_path / "s"), code=6)


def test_without_fcntl_sandboxes_say_so(alone, monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "mqdssm.testing.sandbox", None)
    assert "private directories need Linux" in alone.error("sandbox", "status", str(tmp_path), code=6)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("mqdssm supp", ["support-bundle"]),
        ("mqdssm sandbox st", ["start", "stop", "status"]),
        ("mqdssm create que", ["queue", "queue-manager"]),
        ("mqdssm create queue Lab", ["Label="]),
        ("mqdssm write queue Pathname=x PrivacyLevel=O", ["PrivacyLevel=Optional"]),
        ("mqdssm create queue Journaling=", ["Journaling=true", "Journaling=false"]),
        ("mqdssm list queue --filter Quo", ["Quota=="]),
        ("mqdssm list queue --sort Label,-Quo", ["Label,-Quota"]),
        ("mqdssm list site -a Nam", ["Name"]),
        ("mqdssm list queue --tls s", ["starttls"]),
        ("mqdssm list queue --password", ["--password-file"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_completion(alone, line, wanted):
    cursor = str(len(line.split(" ")) - 1)
    result = alone(_MQDSSM_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=cursor)
    assert result.stdout.split() == wanted


@pytest.mark.parametrize("command", [(), ("list",), ("watch",), ("export",)])
def test_help_says_where_the_configuration_file_is(alone, command):
    from mqdssm.cli.config_file import describe_default_file

    shown = alone(*command, "--help", COLUMNS="200").stdout
    assert "config.toml" in shown
    assert describe_default_file().removeprefix("~").rpartition("/.config/")[2] in shown
