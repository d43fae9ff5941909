"""What is said of a Java that has ended, and what is not printed."""

import logging
import socket
import threading

import pytest
from py4j.clientserver import ClientServer, ClientServerConnection, JavaParameters, PythonParameters

from mqdssm.errors import ConfigError
from mqdssm.spark.gateway import _close, _is_not_of_py4j, describe_end, make_command_line


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (52, "had no memory left; setting spark.driver.memory, as 4g, gives it more"),
        (-9, "was killed, as a machine does that has no memory left"),
        (1, "has ended with 1"),
        (-15, "has ended with -15"),
        (None, "answers no more"),
    ],
)
def test_how_java_ended(code: int | None, words: str) -> None:
    assert describe_end(code) == f"its Java {words}"


def test_secrets_are_no_arguments_of_java() -> None:
    conf = {
        "spark.driver.memory": "4g",
        "spark.hadoop.fs.s3a.secret.key": "hunter2",
        "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": "hunter2",
        "spark.ssl.keyPassword": "hunter2",
    }
    assert make_command_line(conf) == ["--conf", "spark.driver.memory=4g"]


@pytest.mark.parametrize(
    ("path", "kept"), [("/x/site-packages/py4j/java_gateway.py", False), ("/x/my/py4j_like/main.py", True)]
)
def test_only_what_py4j_says_is_kept_from_the_terminal(path: str, kept: bool) -> None:
    record = logging.LogRecord("root", logging.ERROR, path, 1, "Exception while sending", None, None)
    assert _is_not_of_py4j(record) is kept


def test_a_connection_is_closed_while_a_thread_waits_for_calls_of_java() -> None:
    """As after `foreachBatch`. Py4J alone waits for the thread, which waits for Java."""
    parameters = JavaParameters(), PythonParameters(eager_load=False)
    gateway = ClientServer(*parameters)
    ours, javas = socket.socketpair()
    connection = ClientServerConnection(*parameters, gateway.gateway_property, None)
    connection.socket, connection.stream = ours, ours.makefile("rb")
    gateway._gateway_client.deque.append(connection)
    reader = threading.Thread(target=connection.stream.readline, daemon=True)
    reader.start()
    closing = threading.Thread(target=_close, args=[gateway], daemon=True)
    closing.start()
    closing.join(10)
    is_closed = not closing.is_alive()
    javas.close()  # ends both threads in any case
    reader.join(10)
    closing.join(10)
    assert is_closed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.jars.repositories", "https://reader:hunter2@repo.example.com/maven"),
        ("spark.driver.extraJavaOptions", "-Xss4m -Djavax.net.ssl.trustStorePassword=hunter2"),
    ],
)
def test_a_secret_in_a_value_is_no_argument_of_java(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} holds a secret") as refusal:
        make_command_line({"spark.driver.memory": "4g", key: value})
    assert "hunter2" not in str(refusal.value)
