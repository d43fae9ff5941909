"""Secrets in texts that people read."""

import time

import pytest

from mqdssm.model.safe_text import is_secret_setting, redact, redact_strictly

SECRETS = (
    "spark.hadoop.fs.s3a.secret.key={}",
    "spark.hadoop.fs.s3a.access.key={}",
    "spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net={}",
    "--conf spark.hadoop.fs.s3a.session.token={} --conf spark.executor.memory=4g",
    "SPARK_SSL_KEYPASSWORD and javax.net.ssl.trustStorePassword={}",
    '"spark.hadoop.fs.s3a.secret.key": "{}"',
    "{{'password': '{}'}}",
    "Server=db;UID=sa;PWD={};Database=mqis",
    "Pwd = {}",
    "postgresql://reader:{}@db/mqis",
    "jdbc:postgresql://reader:{}@db:5432/mqis?ssl=true",
    "jdbc:oracle:thin:scott/{}@db:1521:orcl",
    "Authorization: Bearer {}",
    "authorization=Negotiate {}",
    "the server said: bearer {} has expired",
    "MQDSSM_PASSWORD={}",
    "https://db/?user=a&password={}&ssl=true",
    "spark.hadoop.fs.azure.sas.container.account.blob.core.windows.net={}",
    "UID=sa;PWD={} y;Database=mqis",
    "UID=sa;PWD={{a;b {}}};Database=mqis",
    '{{"pwd":"a\\"b{}"}}',
    "Bearer a.{}",
    "spark.hadoop.fs.azure.account.oauth2.client.secret: {}",
    "(spark.hadoop.fs.s3a.secret.key,{})",
    "spark.executor.memory 4g\nspark.hadoop.fs.s3a.secret.key {}\nspark.app.name x",
    "spark.hadoop.my.creds={}",
    "ssl.private.key=-----BEGIN RSA PRIVATE KEY-----\nMIIE{}\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIE\n{}",
    "wasbs://account.blob.core.windows.net/container?sv=2022-11-02&sig={}&se=2030",
)


@pytest.mark.parametrize("text", SECRETS)
@pytest.mark.parametrize("secret", ["AKIAsecretVALUE1234", "s3cr/t+Pass-w0rd=="])
def test_a_secret_is_removed(text: str, secret: str) -> None:
    assert secret not in redact(text.format(secret))
    assert "***" in redact(text.format(secret))


@pytest.mark.parametrize(
    "text",
    [
        f"{'x' * 1000}password={{}}",
        f"{'a.b-' * 300}secret.key={{}}",
        f"{'x' * 1000}://reader:{{}}@db",
        "jdbc:oracle:thin:sco<t/{}@db:1521:orcl",
        f"ldap://a/{'b' * 1000} ldap://reader:{{}}@db",
    ],
)
def test_a_secret_behind_a_long_name_is_removed(text: str) -> None:
    assert "AKIAsecretVALUE1234" not in redact(text.format("AKIAsecretVALUE1234"))


def cpu_s(text: str) -> float:
    """Least processor time of three runs."""

    def once() -> float:
        began = time.process_time()
        redact_strictly(text)
        return time.process_time() - began

    return min(once() for _ in range(3))


@pytest.mark.parametrize("end", ["", "@", "<@", ">@", "=x"])
@pytest.mark.parametrize(
    "piece",
    [
        *("ldap://a:b", "ldap://", "//a:", "a.b", "a://1:", "password.", "s3a.access.key", "jdbc:oracle:x:a"),
        *(
            "pwd={",
            "pwd=a ",
            "spark.secret ",
            "spark.secret,",
            "-----BEGIN PRIVATE KEY-----",
            "bearer a",
            'pwd="\\',
        ),
    ],
)
def test_a_long_text_takes_no_quadratic_time(piece: str, end: str) -> None:
    """Ten times the text took a hundred times as long: an error of a server stopped the program."""
    short, long = (piece * (size // len(piece)) + end for size in (4_000, 40_000))
    assert cpu_s(long) < 30 * cpu_s(short) + 0.02


def test_user_information_without_a_colon() -> None:
    assert redact("ldap://hunter2@dc1.contoso.test") == "ldap://***@dc1.contoso.test"


@pytest.mark.parametrize("password", ["p@ss", "a/b@c", "p:q"])
def test_a_password_of_an_address_with_signs_of_addresses(password: str) -> None:
    assert redact(f"cannot reach jdbc:postgresql://reader:{password}@db/mqis") == (
        "cannot reach jdbc:postgresql://***@db/mqis"
    )


@pytest.mark.parametrize(
    "text",
    [
        "put the password into a file of its own and name that with password_file",
        "file c.toml holds a password: put it into a file",
        "password_file=lab.password",
        "MQDSSM_PASSWORD_FILE=/run/secrets/ldap",
        "spark.executorEnv.MQDSSM_PASSWORD_FILE=/run/secrets/ldap",
        "ldap://dc1.contoso.test:389 refused the password of cn=admin,dc=example,dc=com",
        "user@contoso.test: the password has expired",
        "ldap://127.0.0.1:3890/dc=example and admin@contoso",
        "PasswordKeyId is no attribute: is it TokenName?",
        "CN=secret,CN=msmq,CN=web01,DC=example",
        "key=value, keys = 3, monkey=banana",
        "spark.executor.memory=4g",
        "spark.kubernetes.executor.secretKeyRef.MQDSSM_PASSWORD=ldap-reader:password",
        "spark.hadoop.fs.s3a.secret.key is not set",
        "spark.sql.shuffle.partitions 4",
        "Basic authentication and bearer tokens are refused",
        "(objectClass=mSMQQueue)",
        "passage=narrow",
        "sigma=3, sign=plus, sas=1",
    ],
)
def test_all_else_stays(text: str) -> None:
    assert redact(text) == text


def test_what_is_given_away_is_read_more_strictly() -> None:
    assert redact_strictly("password: hunter2") == "password: ***"


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net", True),
        ("spark.ssl.keyPassword", True),
        ("spark.executorEnv.MQDSSM_PASSWORD_FILE", False),
        ("spark.kubernetes.executor.secretKeyRef.MQDSSM_PASSWORD", False),
        ("spark.executor.memory", False),
        ("spark.sql.redaction.options.regex", False),
    ],
)
def test_names_of_settings(name: str, is_secret: bool) -> None:
    assert is_secret_setting(name) is is_secret


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("UID=sa;PWD=x y;Database=mqis", "UID=sa;PWD=***;Database=mqis"),
        ("UID=sa;PWD={a;b c};Database=mqis", "UID=sa;PWD=***;Database=mqis"),
        ('{"pwd": "a\\"bcd", "x": 1}', '{"pwd": ***, "x": 1}'),
        ("Bearer eyJabc.def is refused", "Bearer *** is refused"),
        ("Bearer short1 is refused", "Bearer *** is refused"),
        ("bearer tokens.", "bearer tokens."),
        ("(spark.hadoop.fs.s3a.secret.key,XYZ)", "(spark.hadoop.fs.s3a.secret.key,***"),
    ],
)
def test_the_rest_of_a_text_with_a_secret(text: str, shown: str) -> None:
    assert redact(text) == shown
