"""Import of the modules for private servers, which need Linux or another Unix."""

from importlib import import_module
from types import ModuleType

from mqdssm.errors import ConfigError


def testing_module(name: str) -> ModuleType:
    """Import a module of ``mqdssm.testing`` that runs private servers.

    Raises:
        ConfigError: this system cannot run one.
    """
    try:
        return import_module(f"mqdssm.testing.{name}")
    except ImportError as error:  # no fcntl on Windows
        raise ConfigError(
            f"private directories need Linux or another Unix ({error}); every other command works here"
        ) from error
