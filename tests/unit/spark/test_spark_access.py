"""Where Spark runs, and how its machines log in: what is refused before Java starts."""

import os
import pickle
import socket
import subprocess
import sys
import tempfile
import zipfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from mqdssm.directory.secret import read_password
from mqdssm.errors import ConfigError
from mqdssm.pipeline.access import DirectoryAccess, PipelineLogIn, open_access
from mqdssm.pipeline.shared_folder import WitnessFile, make_scratch
from mqdssm.pipeline.spark_options import HERE, SparkOptions
from mqdssm.spark.cluster import (
    check_master,
    find_problem,
    make_session_settings,
    refuse_speculation,
    write_package_zip,
)

URL = "ldap://127.0.0.1:1"
SECRET = "s3cr3t-never-shown"
CLUSTER = SparkOptions("spark://head:7077")


@pytest.fixture(autouse=True)
def no_session(monkeypatch) -> None:
    # other tests of this process may have one
    monkeypatch.setattr("mqdssm.pipeline.spark_options._master_of_session", lambda: None)


@pytest.mark.parametrize(
    ("master", "is_cluster"),
    [
        (None, False),
        ("local", False),
        ("local[2]", False),
        ("local[*,4]", False),
        ("local-cluster[2,1,1024]", True),
        ("spark://head:7077,spare:7077", True),
        ("yarn", True),
        ("k8s://https://10.0.0.1:443", True),
    ],
)
def test_masters(master: str | None, is_cluster: bool) -> None:
    assert SparkOptions.of(master).is_cluster is is_cluster
    assert SparkOptions.of(None, [f"spark.master={master}"] if master else []) == SparkOptions.of(master)


def test_a_session_that_runs_on_a_cluster_counts(monkeypatch) -> None:
    monkeypatch.setattr("mqdssm.pipeline.spark_options._master_of_session", lambda: "yarn")
    assert HERE.is_cluster
    assert not SparkOptions("local[2]").is_cluster


@pytest.mark.parametrize(
    "master",
    ["head:7077", "http://head:8080", "spark://", "local[", "local[x]", "mesos://x", "yarn-client", ""],
)
def test_what_is_no_master(master: str) -> None:
    with pytest.raises(ConfigError, match=r"is no master of Spark: use spark://HOST:7077, yarn, k8s://"):
        SparkOptions.of(master)


def test_settings_are_taken_apart_at_the_first_sign() -> None:
    words = ["spark.executor.memory=4g", "spark.driver.extraJavaOptions=-Da=b -Dc=d"]
    assert SparkOptions.of(None, words).conf == {
        "spark.executor.memory": "4g",
        "spark.driver.extraJavaOptions": "-Da=b -Dc=d",
    }


@pytest.mark.parametrize("word", ["spark.executor.memory", f"password={SECRET}", SECRET, "", "=x"])
def test_what_is_no_setting_is_not_repeated(word: str) -> None:
    with pytest.raises(ConfigError, match=r"is written spark.NAME=VALUE") as caught:
        SparkOptions.of(None, [word])
    assert SECRET not in str(caught.value)


def test_two_masters() -> None:
    with pytest.raises(ConfigError, match="Spark's master is given twice: yarn and local"):
        SparkOptions.of("yarn", ["spark.master=local"])


def test_a_password_is_no_setting() -> None:
    with pytest.raises(ConfigError, match="would show the password in Spark's pages and logs") as caught:
        SparkOptions.of(None, [f"spark.executorEnv.MQDSSM_PASSWORD={SECRET}"])
    assert SECRET not in str(caught.value)


def test_settings_of_a_session(tmp_path) -> None:
    assert make_session_settings(SparkOptions("local[2]"), tmp_path) == {"spark.master": "local[2]"}
    found = make_session_settings(SparkOptions("yarn", {"spark.submit.pyFiles": "/a.zip"}), tmp_path)
    assert found == {"spark.master": "yarn", "spark.submit.pyFiles": f"/a.zip,{tmp_path / 'mqdssm.zip'}"}


@pytest.mark.slow
def test_the_package_works_from_its_zip(tmp_path) -> None:
    path = write_package_zip(tmp_path)
    names = zipfile.ZipFile(path).namelist()
    assert {"mqdssm/__init__.py", "mqdssm/py.typed", "pyspark_mqdssm/__init__.py"} < set(names)
    assert not [name for name in names if "__pycache__" in name or name.startswith("mqdssm/testing")]
    code = "import mqdssm.pipeline.export.worker as one, mqdssm.pipeline.validate.worker; print(one.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert found.stdout.startswith(str(path))


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it does not listen, and nobody else can
        master = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"no master of Spark listens at {master} .*Connection refused"):
            check_master(SparkOptions(master))


def test_one_of_two_masters_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in (taken, listening)]
        check_master(SparkOptions("spark://" + ",".join(f"127.0.0.1:{port}" for port in ports)))
    check_master(HERE)
    check_master(SparkOptions("yarn"))


def test_a_folder_that_is_not_shared(tmp_path) -> None:
    mark = tmp_path / "mark"
    mark.write_text("a")
    witness = WitnessFile.of(mark)
    assert pickle.loads(pickle.dumps(witness)) == witness
    assert find_problem([witness]) is None
    mark.write_text("another")
    assert "there is another file of this name" in (find_problem([witness]) or "")
    mark.unlink()
    with pytest.raises(
        ConfigError, match=rf"{socket.gethostname()} does not see {mark} as this machine does"
    ) as caught:
        witness.check()
    assert "No such file or directory" in str(caught.value)
    assert "use a folder that all machines of the cluster share under the same path" in str(caught.value)


def test_a_package_that_is_not_there(monkeypatch) -> None:
    monkeypatch.setattr("mqdssm.spark.cluster.NEEDED", ("ldap3", "no_such_package"))
    words = find_problem([]) or ""
    assert words.startswith(f"executor {socket.gethostname()} cannot import no_such_package")
    assert "install what 'mqdssm[spark]' needs" in words


@pytest.mark.parametrize("value", ["true", "false", None])
def test_tasks_that_run_twice(value: str | None) -> None:
    settings = {} if value is None else {"spark.speculation": value}
    session = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: settings))
    with (
        pytest.raises(ConfigError, match="slow tasks would be started twice")
        if value == "true"
        else nullcontext()
    ):
        refuse_speculation(session)


def test_folders_between(tmp_path) -> None:
    with make_scratch(HERE, "mqdssm-x-") as folder:
        assert folder.is_dir()
    assert not folder.exists()
    with make_scratch(SparkOptions("yarn", shared=tmp_path), "mqdssm-x-") as folder:
        assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match="name one with --spark-shared"), make_scratch(CLUSTER, "mqdssm-x-"):
        pass
    gone = SparkOptions("yarn", shared=tmp_path / "none")
    with (
        pytest.raises(ConfigError, match="none cannot be used: No such file"),
        make_scratch(gone, "mqdssm-x-"),
    ):
        pass


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("password", [SECRET, "pä ss", "ends with\n", "ends with\r", "\n"])
def test_a_password_lies_in_memory_or_a_private_file_meanwhile(
    password: str, in_memory: bool, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create")
    with open_access(URL, PipelineLogIn(user="cn=a", password=password)) as access:
        file = Path(access.password_file or "")
        assert [one.stat().st_mode & 0o777 for one in tmp_path.iterdir()] == ([] if in_memory else [0o600])
        read = f"from pathlib import Path; print(Path({str(file)!r}).read_bytes())"  # as Spark's workers do
        other = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=True)
        assert other.stdout == f"{(password + chr(13) + chr(10)).encode()!r}\n"
        assert access.password() == password
        assert SECRET not in repr(access)
        assert SECRET.encode() not in pickle.dumps(access)
        assert access.for_executors(HERE) is access
    assert not file.exists()


def test_a_file_of_the_user_s_stays_where_it_is(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("password").write_text(SECRET + "\n")
    with open_access([URL, "ldap://b"], PipelineLogIn(password_file="password", ca_file="ca.pem")) as access:
        assert access == DirectoryAccess(
            urls=(URL, "ldap://b"), password_file=str(tmp_path / "password"), ca_file=str(tmp_path / "ca.pem")
        )
        assert access.at("ldap://b").urls == ("ldap://b",)
        assert access.password() == SECRET
    assert read_password(tmp_path / "password") == SECRET


def test_one_password_is_enough() -> None:
    with (
        pytest.raises(ConfigError, match="password and password_file exclude each other"),
        open_access(URL, PipelineLogIn(password=SECRET, password_file="x")),
    ):
        pass


def test_a_password_that_is_not_there(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("MQDSSM_TEST_PASSWORD", raising=False)
    with pytest.raises(ConfigError, match=r"MQDSSM_TEST_PASSWORD, .* is not set in the process that reads"):
        DirectoryAccess(urls=(URL,), password_variable="MQDSSM_TEST_PASSWORD").password()
    with pytest.raises(ConfigError, match=r"the password file .*none cannot be read: No such file"):
        DirectoryAccess(urls=(URL,), password_file=str(tmp_path / "none")).password()


def test_a_password_of_ours_goes_to_no_other_machine() -> None:
    with (
        pytest.raises(ConfigError, match="on a cluster every machine reads the password itself"),
        open_access(URL, PipelineLogIn(password=SECRET), CLUSTER),
    ):
        pass


def test_files_of_executors() -> None:
    conf = {
        "spark.executorEnv.MQDSSM_PASSWORD_FILE": "/run/secrets/reader",
        "spark.executorEnv.MQDSSM_CA_FILE": "/etc/ca.pem",
        "spark.executorEnv.MQDSSM_KEYTAB": "/etc/keys",
    }
    with open_access(URL, PipelineLogIn(password=SECRET), SparkOptions("yarn", conf)) as access:
        theirs = access.for_executors(SparkOptions("yarn", conf))
        assert (theirs.password_file, theirs.ca_file, theirs.keytab) == (
            "/run/secrets/reader",
            "/etc/ca.pem",
            "/etc/keys",
        )
        assert not theirs.is_own
        assert access.password() == SECRET
        assert access.for_executors(SparkOptions(conf=conf)) is access  # this machine has its own files


def test_a_secret_of_kubernetes() -> None:
    conf = {"spark.kubernetes.executor.secretKeyRef.MQDSSM_PASSWORD": "ldap-reader:password"}
    on = SparkOptions("k8s://https://10.0.0.1:443", conf)
    with open_access(URL, PipelineLogIn(password=SECRET), on) as access:
        theirs = access.for_executors(on)
        assert (theirs.password_file, theirs.password_variable) == (None, "MQDSSM_PASSWORD")


def test_the_same_file_everywhere(tmp_path) -> None:
    with open_access(URL, PipelineLogIn(password_file=tmp_path / "p"), CLUSTER) as access:
        assert access.for_executors(CLUSTER) == access
