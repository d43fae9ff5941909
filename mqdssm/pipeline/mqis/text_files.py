"""Text files of tables: their encoding and their octets.

The encoding comes from a byte order mark or a mapping.
"""

import codecs
import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from mqdssm.errors import ConfigError

UTF8: Final = "utf-8"
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins with the byte order mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEAD_BYTES: Final = 4096
_READ_BYTES: Final = 256 * 1024


class Encoded(NamedTuple):
    """An open file and its encoding.

    Attributes:
        octets: the file behind its byte order mark; UTF-16 has become UTF-8.
        encoding: of these octets.
    """

    octets: BinaryIO
    encoding: str


@contextlib.contextmanager
def open_text(path: Path, encoding: str) -> Iterator[Encoded]:
    """Open a text file; a byte order mark overrides the given encoding.

    Args:
        path: of the file.
        encoding: that it should have, a name of Python.

    Raises:
        ConfigError: the file has another encoding, naming both as far as they are known.
        OSError: the file cannot be read; also while it is read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        mark, codec = next((pair for pair in _MARKS if head.startswith(pair[0])), (b"", encoding))
        _check(path, head[len(mark) :], codec)
        file.seek(len(mark))
        if codec.startswith("utf-16"):
            with io.BufferedReader(_AsUtf8(file, codec)) as octets:
                yield Encoded(octets, UTF8)
        else:
            yield Encoded(file, codec)


def _check(path: Path, head: bytes, encoding: str) -> None:
    """Check the beginning of a file, which holds names of columns, for an encoding.

    Raises:
        ConfigError: the file has another encoding.
    """
    if encoding.startswith("utf-32"):
        raise ConfigError(f"{path} is in UTF-32: convert it to UTF-8 or UTF-16 first")
    wide = _name_wide(head)
    if encoding.startswith("utf-16"):
        if head and not wide:
            raise ConfigError(
                f"{path} is not in {encoding}, as the mapping says: it has one octet a letter, as UTF-8 and "
                "cp1252 have"
            )
    elif wide:
        raise ConfigError(
            f'{path} is not in {encoding} but in {wide}: write encoding = "{wide}" in a --mapping file'
        )


def _name_wide(head: bytes) -> str:
    """Return the name of the UTF-16 encoding of octets.

    The name is "" if the octets are not in UTF-16. In ASCII text as UTF-16 every second octet is 0.
    """
    low, high = head[0::2].count(0), head[1::2].count(0)
    if not head or 4 * max(low, high) < len(head):
        return ""
    return "utf-16-le" if high > low else "utf-16-be"


class _AsUtf8(io.RawIOBase):
    """A file in UTF-16 read as octets of UTF-8.

    Half of a surrogate pair is kept, as invalid UTF-8.
    """

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._file = file
        # little-endian without a mark, as on Windows
        order = "utf-16-be" if encoding == "utf-16-be" else "utf-16-le"
        self._decoder = codecs.getincrementaldecoder(order)("surrogatepass")
        self._left = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        """Fill a buffer; return how many octets it holds, 0 at the end.

        Raises:
            OSError: the file ends within a character.
        """
        data = b"x"
        while data and not self._left:
            data = self._file.read(_READ_BYTES)
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                raise OSError(f"it ends within a character of UTF-16: {error.reason}") from error
            self._left = text.encode(UTF8, "surrogatepass")
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count
