"""The images of the command line, run by a real engine (`make test-containers`)."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.project.source_tree import ROOT
from support.servers.container_engine import (
    base_image,
    compose,
    engine,
    read_log,
    run_once,
    server_image,
    spark_image,
    wait_for_end,
    wait_for_words,
)

from mqdssm.testing import OpenLdapContainer

__all__ = ["base_image", "engine", "server_image", "spark_image"]

pytestmark = [
    pytest.mark.container,
    pytest.mark.xdist_group("containers"),
    pytest.mark.timeout(1800),
]

LOCKED_DOWN = {
    "read_only": True,
    "tmpfs": {"/tmp": ""},
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
}
USER = 10001
COMPOSE = ROOT / "docker" / "compose.yaml"


@pytest.fixture(scope="module")
def server(engine: Any) -> Iterator[OpenLdapContainer]:
    with OpenLdapContainer() as started:
        yield started


@pytest.fixture
def volume(engine: Any) -> Iterator[str]:
    made = engine.volumes.create(f"mqdssm-test-{uuid.uuid4()}")
    yield made.name
    made.remove(force=True)


def mounted(folder: Path, name: str, content: bytes) -> dict[str, dict[str, str]]:
    """A file that only the user of the images may read, mounted at its usual place."""
    path = folder / name
    path.write_bytes(content)
    os.chown(path, USER, USER)
    path.chmod(0o400)
    return {str(path): {"bind": f"/run/secrets/{name}", "mode": "ro"}}


def beside(server: OpenLdapContainer, folder: Path, volume: str) -> dict[str, Any]:
    """Options of a container that reaches the server over TLS, locked down."""
    password = mounted(folder, "ldap-password", server.password.encode())
    authority = mounted(folder, "ca.pem", Path(server.ca_file).read_bytes())
    return LOCKED_DOWN | {
        "network_mode": f"container:{server._find_engine_container().id}",
        "environment": {
            "MQDSSM_URL": "ldap://127.0.0.1",
            "MQDSSM_USER": server.user,
            "MQDSSM_CA_FILE": "/run/secrets/ca.pem",
        },
        "volumes": password | authority | {volume: {"bind": "/data", "mode": "rw"}},
    }


def locked(*requirements: str) -> dict[str, str]:
    """Names and versions that .ci/lockfile.py chooses for an image."""
    command = [sys.executable, str(ROOT / ".ci" / "lockfile.py"), "--subset", *requirements]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = (line.split()[0].partition("==") for line in printed.splitlines() if line[:1].isalnum())
    return {name: version for name, _, version in lines}


INSTALLED = """
import json, re
from importlib.metadata import distributions
print(json.dumps({re.sub("[-_.]+", "-", one.name).lower(): one.version for one in distributions()}))
"""


def installed(engine: Any, image: str) -> dict[str, str]:
    status, output = run_once(engine, image, "-c", INSTALLED, entrypoint=["python"], **LOCKED_DOWN)
    assert status == 0, output
    found: dict[str, str] = json.loads(output)
    return found


class TestBaseImage:
    def test_it_holds_what_is_locked_and_nothing_else(self, engine: Any, base_image: str) -> None:
        found = installed(engine, base_image)
        assert found.pop("mqdssm")
        assert found == locked("mqdssm[pipeline]", "mqdssm[ad]")
        assert "pyspark" not in found

    def test_it_is_an_ordinary_user_without_java(self, engine: Any, base_image: str) -> None:
        script = "id -u; id -g; command -v java pip; touch /opt/mqdssm/here"
        status, output = run_once(engine, base_image, "-c", script, entrypoint=["sh"])
        assert status == 1
        assert output.splitlines()[:2] == [str(USER), str(USER)]
        assert output.splitlines()[2:] == ["touch: cannot touch '/opt/mqdssm/here': Permission denied"]

    def test_an_enterprise_is_planned_applied_and_exported(
        self, engine: Any, base_image: str, server: OpenLdapContainer, volume: str, tmp_path: Path
    ) -> None:
        options = beside(server, tmp_path, volume)
        sizes = ("--sites", "2", "--machines", "12", "--queues", "60", "--users", "0")
        for command in (
            ("generate", *sizes, "--format", "mqis", "--to", "/data/mqis"),
            ("plan", "/data/mqis", "--to", "/data/plan", "--create-computers"),
            ("apply", "/data/plan"),
            ("export", "--to", "/data/export"),
        ):
            status, output = run_once(engine, base_image, *command, **options)
            assert status == 0, (command, output)
        read = (
            "import json; print(json.load(open('/data/export/manifest.json'))['types']['queue']['rows'])",
        )
        options["entrypoint"] = ["python", "-c"]
        assert run_once(engine, base_image, *read, **options) == (0, "60\n")

    def test_the_container_of_the_cronjob_validates(
        self, engine: Any, base_image: str, server: OpenLdapContainer, volume: str, tmp_path: Path
    ) -> None:
        job = yaml.safe_load((ROOT / "docs" / "nightly" / "cronjob.yaml").read_text())
        pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["image"] == base_image
        options = beside(server, tmp_path, volume)
        given = {one["name"]: one["value"] for one in container["env"]}
        options["environment"] = given | {"MQDSSM_URL": "ldap://127.0.0.1", "MQDSSM_USER": server.user}
        places = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        secrets = tmp_path / "secrets"
        secrets.mkdir()
        group = pod["securityContext"]["fsGroup"]
        for name, content in (
            ("ldap-password", server.password),
            ("ca.pem", Path(server.ca_file).read_text()),
        ):
            (secrets / name).write_text(content)
            os.chown(secrets / name, 0, group)
            (secrets / name).chmod(0o440)  # defaultMode of the Secret
        options["volumes"] = {
            volume: {"bind": places["data"], "mode": "rw"},
            str(secrets): {"bind": places["ldap"], "mode": "ro"},
        }
        options["tmpfs"] = {places["tmp"]: ""}
        options["user"] = "{runAsUser}:{runAsGroup}".format(**pod["securityContext"])
        for _night in range(2):
            status, output = run_once(
                engine, base_image, *container["command"][1:], entrypoint=container["command"][:1], **options
            )
            assert status == 0, output
        assert "since " in output

    def test_a_wrong_password_is_exit_code_3(
        self, engine: Any, base_image: str, server: OpenLdapContainer, volume: str, tmp_path: Path
    ) -> None:
        options = beside(server, tmp_path, volume)
        mounted(tmp_path, "ldap-password", b"wrong")
        status, output = run_once(engine, base_image, "list", "queue", **options)
        assert status == 3
        assert output.startswith("error: ")
        assert "Traceback" not in output

    def test_it_stops_when_it_is_told_to(
        self, engine: Any, base_image: str, server: OpenLdapContainer, volume: str, tmp_path: Path
    ) -> None:
        options = beside(server, tmp_path, volume)
        container = engine.containers.create(base_image, ["watch", "queue"], **options)
        try:
            container.start()
            wait_for_words(container, "watching")
            begin = time.monotonic()
            container.stop(timeout=60)
            status, output = wait_for_end(container)
            assert time.monotonic() - begin < 30
            assert (status, output) == (0, "watching ldap://127.0.0.1: Ctrl-C ends it\n")
        finally:
            container.remove(force=True)


class TestServerImage:
    def test_it_holds_what_is_locked_and_a_slapd(self, engine: Any, server_image: str) -> None:
        found = installed(engine, server_image)
        assert found.pop("mqdssm")
        assert found == locked("mqdssm[server]", "mqdssm[ad]")
        script = "id -u; command -v slapd java pip; touch /opt/mqdssm/here"
        status, output = run_once(engine, server_image, "-c", script, entrypoint=["sh"])
        assert (status, output.splitlines()[:2]) == (1, [str(USER), "/usr/sbin/slapd"])
        assert output.splitlines()[2:] == ["touch: cannot touch '/opt/mqdssm/here': Permission denied"]


class TestSparkImage:
    def test_it_holds_what_is_locked_and_nothing_else(self, engine: Any, spark_image: str) -> None:
        found = installed(engine, spark_image)
        assert found.pop("mqdssm")
        assert found == locked("mqdssm[spark]", "mqdssm[ad]")

    def test_the_driver_of_kubernetes_is_spark_submit(self, engine: Any, spark_image: str) -> None:
        status, output = run_once(engine, spark_image, "driver", "--version", **LOCKED_DOWN)
        assert status == 0
        assert "version 4.3.0" in output

    def test_an_executor_of_kubernetes_gets_what_spark_tells(
        self, engine: Any, spark_image: str, tmp_path: Path
    ) -> None:
        java = tmp_path / "java"
        java.write_text('#!/bin/sh\nfor one; do echo "$one"; done\n')
        java.chmod(0o755)
        environment = {
            "JAVA_HOME": "/fake",
            "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
            "SPARK_JAVA_OPT_1": "-Dtext=two words",
            "SPARK_EXECUTOR_MEMORY": "1g",
            "SPARK_EXECUTOR_CORES": "2",
            "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
            "SPARK_EXECUTOR_ID": "7",
            "SPARK_APPLICATION_ID": "spark-1",
            "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
            "SPARK_EXECUTOR_POD_NAME": "msmq-exec-7",
        }
        volumes = {str(java): {"bind": "/fake/bin/java", "mode": "ro"}}
        status, output = run_once(
            engine, spark_image, "executor", environment=environment, volumes=volumes, **LOCKED_DOWN
        )
        assert status == 0, output
        arguments = output.splitlines()
        assert arguments[:4] == ["-Dspark.driver.port=7078", "-Dtext=two words", "-Xms1g", "-Xmx1g"]
        given = dict(zip(arguments[7::2], arguments[8::2], strict=False))
        assert given == {
            "--driver-url": "spark://CoarseGrainedScheduler@driver:7078",
            "--executor-id": "7",
            "--cores": "2",
            "--app-id": "spark-1",
            "--hostname": "10.0.0.7",
            "--resourceProfileId": "0",
            "--podName": "msmq-exec-7",
        }

    def test_a_cluster_of_its_own_exports(
        self, engine: Any, spark_image: str, server: OpenLdapContainer, volume: str, tmp_path: Path
    ) -> None:
        options = beside(server, tmp_path, volume)
        options["environment"] |= {"SPARK_MASTER_HOST": "127.0.0.1", "SPARK_WORKER_HOST": "127.0.0.1"}
        master = engine.containers.create(spark_image, ["master"], **options)
        worker = engine.containers.create(
            spark_image, ["worker", "--cores", "1", "--memory", "1g", "spark://127.0.0.1:7077"], **options
        )
        try:
            master.start()
            wait_for_words(master, "ALIVE")
            worker.start()
            wait_for_words(worker, "Successfully registered with master")
            status, output = run_once(
                engine,
                spark_image,
                *("export", "--type", "site", "--to", "/data/export", "--readable"),
                *("--spark-master", "spark://127.0.0.1:7077", "--spark-conf", "spark.executor.memory=600m"),
                **options,
            )
            assert status == 0, output
            assert "engine: spark" in output
            assert "Asked to launch executor" in read_log(worker)
        finally:
            for one in (worker, master):
                one.remove(force=True)


ROWS_OF_EXPORTS = """
import json, pathlib
for path in sorted(pathlib.Path("/data/exports").glob("*/manifest.json")):
    print(json.loads(path.read_text())["types"]["queue"]["rows"])
print(pathlib.Path("/data/report.html").read_text()[:15])
"""


class TestCompose:
    def test_an_enterprise_is_loaded_once_and_validated_each_time(self, engine: Any, base_image: str) -> None:
        project = f"mqdssm-test-{uuid.uuid4().hex[:8]}"
        sizes = {"SITES": "2", "MACHINES": "10", "QUEUES": "30"}
        volumes = {f"{project}_data": {"bind": "/data", "mode": "ro"}}
        try:
            first = self._night(engine, project, sizes)
            assert "written to /data/mqis" in first
            second = self._night(engine, project, sizes).removeprefix(first)
            assert "0 appeared, 0 mended" in second
            assert "written to /data/mqis" not in second
            status, output = run_once(
                engine, base_image, "-c", ROWS_OF_EXPORTS, entrypoint=["python"], volumes=volumes
            )
        finally:
            compose(COMPOSE, project, ("down", "-v", "-t", "3"))
        assert status == 0, output
        assert output.splitlines() == ["30", "30", "<!doctype html>"]

    def _night(self, engine: Any, project: str, sizes: dict[str, str]) -> str:
        compose(COMPOSE, project, ("up", "-d"), **sizes)
        (container,) = engine.containers.list(all=True, sparse=True, filters={"name": f"{project}.nightly"})
        status, output = wait_for_end(container)
        assert status == 0, output
        return output
