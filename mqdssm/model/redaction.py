"""Removal of secrets from texts for error messages, logs and support bundles.

Patterns cannot find every secret. They find values of settings with the name of a secret, user information in
addresses, and tokens of HTTP headers. Where a password is known, its exact text is removed too.
"""

import re
from typing import Final

REMOVED: Final = "***"

_WORDS: Final = (
    r"(?<![a-z])pass|pass(?:word|wd|phrase)|pwd|secret|token|credentials?|signature"
    r"|(?:access|account|api|auth|encryption|private|sas|shared|storage)[._-]?key"
)
_LOOK_ALIKES: Final = (
    r"(?![\w.\-]*(?:secretkeyref|(?:file|path|dir|folder|env|expiry|name|regex|provider)(?![\w.\-])))"
)
_SETTING: Final = rf"(?<![\w.\-]){_LOOK_ALIKES}[\w.\-]*(?:{_WORDS})(?:[._\-][\w.\-]+)?"
_SECRET_SETTING: Final = re.compile(rf"(?i){_SETTING}")
_VALUE: Final = r"(?!\*\*\*)(\"[^\"]*\"|'[^']*'|[^\s\"',;]+(?:[,;](?![\s\w]*=)[^\s\"',;]+)*)"
_EQUALS: Final = re.compile(rf"(?i)({_SETTING}[\"']?\s*=\s*)(?!=){_VALUE}")
_COLON: Final = re.compile(rf"(?i)({_SETTING}[\"']?\s*:\s*){_VALUE}")
_JSON: Final = re.compile(rf"(?i)([\"']{_SETTING}[\"']\s*:\s*){_VALUE}")
_USER_INFO: Final = re.compile(
    r"(?i)(\b[a-z][a-z0-9+.:-]*://)(?:[^/\s:@\"'<>]*:(?!\d+(?:[/?\s]|$))[^\s\"'<>]*@|[^/\s@\"'<>]*@)"
)
_ORACLE: Final = re.compile(r"(?i)(jdbc:oracle:[a-z0-9]+:)[^\s@\"']*/[^\s\"']*@")
_AUTHORIZATION: Final = re.compile(r"(?i)(\bauthorization[\"']?\s*[:=]\s*[\"']?)(?:[a-z]+\s+)?[^\s\"']+")
_BEARER: Final = re.compile(r"(?i)(\bbearer\s+)[\w.~+/=\-]{12,}")


def is_secret_setting(name: str) -> bool:
    """Return True if a setting holds a secret, by its name, as ``spark.hadoop.fs.s3a.secret.key``."""
    return _SECRET_SETTING.fullmatch(name) is not None


def redact(text: str) -> str:
    """Remove secrets from a text that people read: an error message or a line of a log.

    ``password=x`` is removed; ``password: x`` is not, since sentences have that form.
    """
    for pattern in (_USER_INFO, _ORACLE):
        text = pattern.sub(rf"\1{REMOVED}@", text)
    for pattern in (_EQUALS, _JSON, _AUTHORIZATION, _BEARER):
        text = pattern.sub(rf"\1{REMOVED}", text)
    return text


def redact_strictly(text: str) -> str:
    """Remove secrets from a text that leaves the organisation, ``password: x`` included."""
    return _COLON.sub(rf"\1{REMOVED}", redact(text))
