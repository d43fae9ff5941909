"""The words of errors."""

import pytest

from mqdssm.errors import explain_folder_error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileExistsError(17, "File exists"), "a file is there: name a folder"),
        (NotADirectoryError(20, "Not a directory"), "a file is there: name a folder"),
        (PermissionError(13, "Permission denied"), "Permission denied: name a folder where you may write"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("broken"), "broken"),
    ],
)
def test_a_folder_that_cannot_be_used_says_what_to_do(error: OSError, words: str) -> None:
    assert explain_folder_error(error) == words
