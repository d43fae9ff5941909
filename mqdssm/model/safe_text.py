"""Texts that are safe to print.

Invisible characters are escaped, secrets are removed.
Escapes are for directory text in lines, JSON and CSV: no control of terminals, no early end of a line.
Patterns cannot find every secret. They find values of settings with the name of a secret, user information in
addresses, and tokens of HTTP headers. Where a password is known, its exact text is removed too.
"""

import re
from functools import partial
from typing import Final

_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7e]")
_CONTROLS: Final = {"\r": "\\r", "\n": "\\n", "\t": "\\t"}


def make_visible(text: str) -> str:
    """Return a text in one line, with escapes for invisible characters.

    Controls, C1 and bidi characters are invisible.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def make_lines_visible(text: str) -> str:
    """Return a text of lines, with escapes for invisible characters.

    Line feeds end lines and are not escaped.
    """
    return "\n".join(map(make_visible, text.split("\n")))


def escape_json(text: str) -> str:
    r"""Return a JSON text with ``\u`` escapes for invisible characters.

    The JSON value does not change.

    Args:
        text: JSON as `json.dumps` writes it: no string holds a bare ASCII control character.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return _BEYOND_ASCII.sub(_escape_json_match, text)


def format_csv_cell(text: str) -> str:
    """Return a text as a cell of CSV, always in quotation marks (RFC 4180)."""
    return '"' + text.replace('"', '""') + '"'


def _escape(character: str) -> str:
    number = ord(character)
    if character in _CONTROLS:
        return _CONTROLS[character]
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x1_0000 else f"\\U{number:08x}"


def _escape_json_match(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


REMOVED: Final = "***"

_WORDS: Final = (
    r"(?<![a-z])pass|pass(?:word|wd|phrase)|pwd|secret|token|credentials?|(?<![a-z])creds?|signature|(?<![a-z])sig|azure\.sas"
    r"|(?:access|account|api|auth|encryption|private|sas|shared|storage)[._-]?key"
)
_LOOK_ALIKES: Final = (
    r"(?![\w.\-]*(?:secretkeyref|(?:file|path|dir|folder|env|expiry|name|regex|provider)(?![\w.\-])))"
)
_SECRET_SETTING: Final = re.compile(rf"(?i){_LOOK_ALIKES}[\w.\-]*(?:{_WORDS})(?:[._\-][\w.\-]+)?")
_NAME: Final = r"(?<![\w.\-])([\w.\-]++)"
_VALUE: Final = re.compile(
    r"(?!\*\*\*)("
    r"\"(?:[^\"\\]++|\\.)*+\"|'(?:[^'\\]++|\\.)*+'"
    r"|\{(?:[^{}]++|\}\})*+\}"  # as ODBC quotes
    r"|[^\s\"',;{]+(?: [^\s\"',;=]+){1,6}(?=;)"  # with blanks, in a connection string
    r"|[^\s\"',;]+(?:[,;](?![\s\w]*=)[^\s\"',;]+)*)"
)
_EQUALS: Final = re.compile(rf"{_NAME}[\"']?\s*=\s*(?!=)")
_COLON: Final = re.compile(rf"{_NAME}[\"']?\s*:\s*")
_SPARK: Final = re.compile(r"(?<![\w.\-])(spark\.[\w.\-]++)(?:[\"']?\s*[:,]\s*|[ \t]+(?=\S+$))", re.MULTILINE)
"""Settings of Spark as ``name: value``, as a pair of Scala, and as a line of spark-defaults.conf."""
_JSON: Final = re.compile(rf"[\"']{_NAME}[\"']\s*:\s*")
_USER_INFO: Final = re.compile(
    r"(?i)((?:\b|(?<=[a-z0-9+.:-]{40}))[a-z][a-z0-9+.:-]{0,40}://)(?:[^/\s:@\"'<>]*:(?!\d+(?:[/?\s]|$))[^\s\"'<>]*@|[^/\s@\"'<>]*@)"
)
_ORACLE: Final = re.compile(r"(?i)(jdbc:oracle:[a-z0-9]{1,20}:)[^\s@\"'/]{0,200}/[^\s\"']*@")
_WITHOUT_USER_INFO: Final = (
    (re.compile(r"[^\s\"'<>]++"), _USER_INFO),
    (re.compile(r"[^\s\"']++"), _ORACLE),
)
"""Text in which user information ends with the last at sign, and the pattern of user information there."""
_AUTHORIZATION: Final = re.compile(r"(?i)(\bauthorization[\"']?\s*[:=]\s*[\"']?)(?:[a-z]+\s+)?[^\s\"']+")
_BEARER: Final = re.compile(
    r"(?i)(\bbearer\s+)(?:[\w.~+/=\-]{12,}|(?=[\w~+/=\-.]*(?:\d|\.\w))[\w.~+/=\-]{4,})"
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.DOTALL
)


def is_secret_setting(name: str) -> bool:
    """Return True if a setting holds a secret, by its name.

    An example is ``spark.hadoop.fs.s3a.secret.key``.
    """
    return _SECRET_SETTING.fullmatch(name) is not None


def redact(text: str) -> str:
    """Remove secrets from a text that people read.

    The text is an error message or a line of a log.
    ``password=x`` is removed; ``password: x`` is not, since sentences have that form.
    """
    for unbroken, user_info in _WITHOUT_USER_INFO:
        text = unbroken.sub(partial(_without_user_info, user_info), text)
    text = _PRIVATE_KEY.sub(REMOVED, text)
    for settings in (_EQUALS, _JSON, _SPARK):
        text = _without_values(settings, text)
    for token in (_AUTHORIZATION, _BEARER):
        text = token.sub(rf"\1{REMOVED}", text)
    return text


def redact_strictly(text: str) -> str:
    """Remove secrets from a text that leaves the organisation.

    ``password: x`` is removed, too.
    """
    return _without_values(_COLON, redact(text))


# A long text must not take quadratic time: no pattern reads more than a part of it again at each place.


def _without_user_info(user_info: re.Pattern[str], match: re.Match[str]) -> str:
    start, sign, end = match[0].rpartition("@")
    return user_info.sub(rf"\1{REMOVED}@", start + sign) + end if ":" in start else match[0]


def _without_values(settings: re.Pattern[str], text: str) -> str:
    """Remove the values of settings that have the names of secrets."""
    pieces: list[str] = []
    at = 0
    for setting in settings.finditer(text):
        if setting.start() < at or not is_secret_setting(setting[1]):
            continue
        value = _VALUE.match(text, setting.end())
        if value is not None:
            pieces += text[at : setting.end()], REMOVED
            at = value.end()
    return "".join((*pieces, text[at:]))
