"""Check for a Java that Spark can run on, before pyspark starts, whose own error explains nothing."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from mqdssm.errors import ConfigError

JAVA_MAJOR_MIN: Final = 17  # PySpark 4's classes are those of Java 17
_ASK_WAIT_S: Final = 20.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> Path:
    """Find the Java that Spark would start, and check that it is new enough.

    Returns:
        The program: ``$JAVA_HOME/bin/java`` when JAVA_HOME is set, else the first ``java`` of the path.

    Raises:
        ConfigError: there is none, it does not run, or it is older than Java 17; with what to install.
    """
    program = "java.exe" if sys.platform == "win32" else "java"
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", program)
        if not java.is_file():
            raise ConfigError(f"JAVA_HOME is {home}, but there is no {java}; {_advice()}")
    else:
        found = shutil.which("java")
        if found is None:
            raise ConfigError(f"this runs on Spark, which needs Java {JAVA_MAJOR_MIN}; {_advice()}")
        java = Path(found)
    major = java_major(java)
    if major < JAVA_MAJOR_MIN:
        raise ConfigError(f"{java} is Java {major}, Spark needs {JAVA_MAJOR_MIN} or later; {_advice()}")
    return java


def java_major(java: Path) -> int:
    """Return the major version of a Java.

    Raises:
        ConfigError: it does not run, or its answer holds no version.
    """
    try:
        answer = subprocess.run(  # noqa: S603  the program is the one that Spark itself will start
            [java, "-version"], capture_output=True, text=True, timeout=_ASK_WAIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{java} does not run: {error}; {_advice()}") from error
    found = _VERSION.search(answer.stderr + answer.stdout)
    if found is None:
        raise ConfigError(f"{java} -version names no version; {_advice()}")
    return int(found[1])


def _advice() -> str:
    if sys.platform == "win32":
        return f"install one (winget install Microsoft.OpenJDK.{JAVA_MAJOR_MIN}) or set JAVA_HOME"
    if sys.platform == "darwin":
        return f"install one (brew install openjdk@{JAVA_MAJOR_MIN}) or set JAVA_HOME"
    return f"install one (Debian: apt-get install openjdk-{JAVA_MAJOR_MIN}-jre-headless) or set JAVA_HOME"
