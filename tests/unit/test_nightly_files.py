"""The CronJob and the CI job for every night: fields that their systems know, and what belongs together."""

import re
from typing import Any

import yaml
from support.project.source_tree import ROOT

NIGHTLY = ROOT / "docs" / "nightly"
SCRIPT = (ROOT / "docker" / "mqdssm" / "nightly.sh").read_text()
IMAGE = (ROOT / "docker" / "mqdssm" / "Dockerfile").read_text()

METADATA = {"name": str, "namespace": str, "labels": dict, "annotations": dict}
CONTAINER: dict[str, Any] = {
    "name": str,
    "image": str,
    "imagePullPolicy": str,
    "command": [str],
    "args": [str],
    "env": [{"name": str, "value": str, "valueFrom": dict}],
    "resources": {"requests": dict, "limits": dict},
    "securityContext": {
        "allowPrivilegeEscalation": bool,
        "readOnlyRootFilesystem": bool,
        "capabilities": {"drop": [str], "add": [str]},
    },
    "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool, "subPath": str}],
}
VOLUME = {
    "name": str,
    "persistentVolumeClaim": {"claimName": str, "readOnly": bool},
    "emptyDir": {"medium": str, "sizeLimit": str},
    "secret": {"secretName": str, "defaultMode": int, "optional": bool},
}
POD: dict[str, Any] = {
    "restartPolicy": str,
    "automountServiceAccountToken": bool,
    "serviceAccountName": str,
    "securityContext": {
        "runAsNonRoot": bool,
        "runAsUser": int,
        "runAsGroup": int,
        "fsGroup": int,
        "seccompProfile": {"type": str},
    },
    "containers": [CONTAINER],
    "volumes": [VOLUME],
}
JOB = {
    "parallelism": int,
    "completions": int,
    "backoffLimit": int,
    "activeDeadlineSeconds": int,
    "ttlSecondsAfterFinished": int,
    "template": {"metadata": METADATA, "spec": POD},
}
CRON_JOB = {
    "apiVersion": str,
    "kind": str,
    "metadata": METADATA,
    "spec": {
        "schedule": str,
        "timeZone": str,
        "suspend": bool,
        "concurrencyPolicy": str,
        "startingDeadlineSeconds": int,
        "successfulJobsHistoryLimit": int,
        "failedJobsHistoryLimit": int,
        "jobTemplate": {"metadata": METADATA, "spec": JOB},
    },
}
"""Fields of batch/v1 in the reference of the Kubernetes API, as far as a job as ours could have them."""
GITLAB_JOB: dict[str, Any] = {
    "image": {"name": str, "entrypoint": [str]},
    "rules": [{"if": str, "when": str}],
    "variables": dict,
    "script": [str],
    "timeout": str,
    "cache": {"key": str, "paths": [str], "when": str, "policy": str},
    "artifacts": {"when": str, "paths": [str], "expire_in": str, "name": str},
}
"""Keywords of a job in the reference of GitLab CI, as far as a job as ours could have them."""


def unknown(value: Any, known: Any, path: str = "") -> list[str]:
    """Paths of fields that are not known, or hold something else."""
    if isinstance(known, dict) and isinstance(value, dict):
        found = [f"{path}.{name}" for name in value if name not in known]
        return found + [
            one
            for name in value
            if name in known
            for one in unknown(value[name], known[name], f"{path}.{name}")
        ]
    if isinstance(known, list) and isinstance(value, list):
        return [one for item in value for one in unknown(item, known[0], f"{path}[]")]
    is_right = isinstance(known, type) and type(value) is known
    return [] if is_right else [f"{path}: {value!r}"]


def variables_of_script() -> set[str]:
    return set(re.findall(r"\$\{(NIGHTLY_\w+)", SCRIPT))


def test_fields_that_are_not_known_are_found() -> None:
    job = {"spec": {"schedule": 5, "jobTemplates": {}}, "kind": "CronJob"}
    assert unknown(job, CRON_JOB) == [".spec.jobTemplates", ".spec.schedule: 5"]


def test_the_cronjob_has_fields_of_the_api_that_belong_together() -> None:
    job = yaml.safe_load((NIGHTLY / "cronjob.yaml").read_text())
    assert unknown(job, CRON_JOB) == []
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    assert re.fullmatch(r"\d+ \d+ \* \* \*", job["spec"]["schedule"])
    assert job["spec"]["concurrencyPolicy"] in {"Allow", "Forbid", "Replace"}
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["restartPolicy"] in {"Never", "OnFailure"}  # Always is refused in a job
    (container,) = pod["containers"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert set(mounts) == {one["name"] for one in pod["volumes"]}
    variables = {one["name"]: one["value"] for one in container["env"]}
    files = [value for name, value in variables.items() if name.endswith("_FILE")]
    assert files
    assert all(value.startswith(f"{mounts['ldap']}/") for value in files)
    assert mounts["data"] in re.findall(r"^VOLUME (\S+)$", IMAGE, re.MULTILINE)
    assert container["command"][-1] in re.findall(r"^COPY nightly.sh (\S+)$", IMAGE, re.MULTILINE)
    assert {name for name in variables if name.startswith("NIGHTLY_")} <= variables_of_script()


def test_the_cronjob_is_allowed_where_pods_are_restricted() -> None:
    """The pod security standard "restricted"; the group may read the mounted password, and nobody else."""
    job = yaml.safe_load((NIGHTLY / "cronjob.yaml").read_text())
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    context, (container,) = pod["securityContext"], pod["containers"]
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert f"USER {context['runAsUser']}:{context['runAsGroup']}" in IMAGE
    (secret,) = [one["secret"] for one in pod["volumes"] if "secret" in one]
    assert (secret["defaultMode"], context["fsGroup"]) == (0o440, context["runAsGroup"])


def test_the_job_of_gitlab_has_keywords_that_it_knows() -> None:
    jobs = yaml.safe_load((NIGHTLY / "gitlab-ci.yml").read_text())
    ((_, job),) = jobs.items()
    assert unknown(job, GITLAB_JOB) == []
    assert {name for name in job["variables"] if name.startswith("NIGHTLY_")} <= variables_of_script()
    folder = job["variables"]["NIGHTLY_DIR"].removeprefix("$CI_PROJECT_DIR/")
    assert job["cache"]["paths"] == [folder]
    assert all(path.startswith(f"{folder}/") for path in job["artifacts"]["paths"])
    # a lost cache loses no baseline
    assert not job["variables"]["NIGHTLY_BASELINE"].startswith(job["variables"]["NIGHTLY_DIR"])
