"""The section [metrics] of a server's configuration."""

import pytest
from pydantic import ValidationError

from mqdssm.server.config import MetricsSection


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("9464", "127.0.0.1", 9464),
        ("127.0.0.1:9464", "127.0.0.1", 9464),
        ("0.0.0.0:1", "0.0.0.0", 1),
        ("[::1]:9464", "::1", 9464),
    ],
)
def test_addresses(text, host, port):
    assert MetricsSection(address=text).listen == (host, port)


def test_without_an_address_there_is_no_port():
    assert MetricsSection().listen is None


@pytest.mark.parametrize("text", ["", "0", "70000", "localhost:9464", "127.0.0.1:0", "127.0.0.1:x", ":9464"])
def test_addresses_that_are_refused(text):
    with pytest.raises(ValidationError):
        MetricsSection(address=text)
