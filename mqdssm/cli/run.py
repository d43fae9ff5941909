"""Run of a command: its settings, output and connection; declaration of commands."""

import contextlib
import inspect
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import typer

from mqdssm.cli import exits, logs
from mqdssm.cli.exits import raise_on_signals
from mqdssm.cli.options import DEFAULTS, SPARK, Format, GivenOptions, collect_command_options
from mqdssm.cli.output import Output, say
from mqdssm.model.safe_text import is_secret_setting, make_lines_visible, make_visible, redact

if TYPE_CHECKING:
    from mqdssm.cli.settings import Loaded
    from mqdssm.directory.options import ConnectionOptions
    from mqdssm.directory.session import Session
    from mqdssm.events.facade import Directory
    from mqdssm.pipeline.spark_options import SparkOptions

log: Final = logging.getLogger(__name__)

Command = Callable[..., int | None]


class CommandRun:
    """Settings, output and connection of a command.

    Attributes:
        given: the shared options.
        output: where its answer goes.
    """

    def __init__(self, given_options: GivenOptions) -> None:
        self.given = given_options
        self.output = Output(is_json=given_options.is_for_programs)
        self._loaded: Loaded | None = None
        self._password: str | None = None

    @property
    def loaded(self) -> "Loaded":
        """Settings with their sources, read on first use.

        Raises:
            UsageProblem: a setting that cannot be.
        """
        if self._loaded is None:
            from mqdssm.cli.settings import load

            given_options = self.given
            self._loaded = load(
                given_options.settings(), config=given_options.config, connection=given_options.connection
            )
            logs.to_file(self._loaded.settings.log_file)
        return self._loaded

    def at(self, urls: Sequence[str]) -> "CommandRun":
        """Return a run with the same settings for other servers."""
        return CommandRun(replace(self.given, url=list(urls)))

    def by(self, connection: str) -> "CommandRun":
        """Return a run for a connection of the configuration file.

        Other options and variables do not apply.

        Raises:
            UsageProblem: there is no such connection.
        """
        from mqdssm.cli.settings import load

        given_options = self.given
        spark = {name: value for name, value in given_options.settings().items() if name in SPARK}
        other = CommandRun(
            GivenOptions(output=given_options.output, config=given_options.config, debug=given_options.debug)
        )
        other._loaded = load(spark, config=given_options.config, connection=connection, environment=False)
        return other

    def password(self) -> str | None:
        """Return the user's password, stored or prompted for.

        Returns None if the log-in needs no password.

        Raises:
            UsageProblem: there is none, and nobody to ask.
        """
        settings = self.loaded.settings
        if settings.user is None:
            # over ldapi: the server knows who we are; elsewhere a password without a user is refused later
            local = all(url.lower().startswith("ldapi:") for url in settings.url)
            return None if local else self.loaded.stored_password()
        if self._password is None:
            self._password = self.loaded.stored_password()
            by_ticket = settings.keytab is not None or settings.authentication in {"kerberos", "external"}
            if self._password is None and not by_ticket:
                self._password = _ask_password(settings.user)
        return self._password

    def spark(self) -> "SparkOptions":
        """Return the options of Spark.

        Raises:
            UsageProblem: no address of a cluster, no setting of Spark's, or a secret as an argument.
        """
        from mqdssm.pipeline.spark_options import SparkOptions

        settings = self.loaded.settings
        with convert_usage_problems():
            options = SparkOptions.of(settings.spark_master, settings.spark_conf, settings.spark_shared)
        for word in self.given.spark_conf or ():
            name = word.partition("=")[0].strip()
            if is_secret_setting(name) or redact(word) != word:
                raise exits.UsageProblem(
                    f"--spark-conf {name} would show its value to everybody on this machine: give it with "
                    "MQDSSM_SPARK_CONF, or better in a credential provider of Hadoop's"
                )
        if self.given.spark_shared is not None and not options.is_cluster:
            raise exits.UsageProblem("--spark-shared is for a cluster: name it with --spark-master")
        return options

    def connection_options(self, **more: Any) -> "ConnectionOptions":
        """Return the settings as connection options.

        Raises:
            UsageProblem: settings that cannot be.
        """
        from mqdssm.directory.options import ConnectionOptions

        with convert_usage_problems():
            return ConnectionOptions.of(**(self.access() | more))

    @contextlib.contextmanager
    def connect(self) -> "Iterator[Directory]":
        """Connect to the directory of the settings.

        Raises:
            UsageProblem: settings that cannot be.
            DirectoryError: as `mqdssm.connect`.
        """
        import mqdssm

        access = self.access()
        urls = access.pop("urls")
        with convert_usage_problems():
            directory = mqdssm.connect(urls, **access)
        with directory:
            session = directory.session
            if access["naming_context"] is not None:
                _check_context(session)
            log.info(
                "connected to %s, %s, root %s", session.server_url, session.profile.name, session.naming.root
            )
            yield directory

    @contextlib.contextmanager
    def session(self) -> "Iterator[Session]":
        """Connect to any directory, also one without MSMQ's objects.

        Raises:
            UsageProblem: settings that cannot be.
            DirectoryError: as `Session.open`.
        """
        from mqdssm.directory.session import Session

        options = self.connection_options()
        with convert_usage_problems():
            opened = Session.open(options)
        with opened:
            yield opened

    def access(self) -> dict[str, Any]:
        """Return the arguments for `mqdssm.connect`, and the servers as ``urls``.

        Raises:
            UsageProblem: no server was named, or a setting that cannot be.
        """
        settings = self.loaded.settings
        if not settings.url:
            raise exits.UsageProblem(
                "no server was named: give --url, set MQDSSM_URL, or write a file for --config"
            )
        return {
            **self.log_in(),
            "urls": settings.url,
            "password": self.password(),
            "forest": settings.forest,
            "catalog": settings.catalog,
            "read_only": settings.read_only,
        }

    def log_in(self) -> dict[str, Any]:
        """Return the options of `LogIn`, without the password."""
        from mqdssm.directory.log_in import LOG_IN_NAMES

        return {name: getattr(self.loaded.settings, name) for name in LOG_IN_NAMES}


def _check_context(session: "Session") -> None:
    """Check that the naming context exists: otherwise all searches are empty.

    Raises:
        ObjectNotFound: it does not exist, or this user may not see it.
    """
    from mqdssm.errors import ObjectNotFound

    try:
        session.get(session.naming.root, ["objectClass"])
    except ObjectNotFound as error:
        contexts = ", ".join(
            value.decode(errors="replace") for value in session.root_dse.all("namingContexts")
        )
        raise ObjectNotFound(
            "there is no such naming context",
            dn=str(session.naming.root),
            hint=f"the server has {contexts or 'none that this user may see'}",
        ) from error


@contextlib.contextmanager
def convert_usage_problems() -> Iterator[None]:
    """Convert ConfigError of a lower layer to UsageProblem (exit code 2)."""
    from mqdssm.errors import ConfigError, MissingPackageError

    try:
        yield
    except MissingPackageError:
        raise
    except ConfigError as error:
        raise exits.UsageProblem(str(error)) from error


def declare_command(
    function: Command,
    *,
    group: typer.Typer | None = None,
    name: str | None = None,
    connects: bool = True,
    spark: bool = False,
    formats: type[StrEnum] = Format,
    examples: tuple[str, ...] = (),
) -> typer.Typer:
    """Declare a command with its own and the shared parameters.

    The result is the command's application.

    Args:
        function: takes the `CommandRun` and what typer makes of its parameters; returns an exit code, None
            is 0. Its docstring is the help text.
        group: commands to which it is added; None: it is a command by itself.
        name: in the group; None: that of the function.
        connects: it takes the options of a connection.
        spark: it takes the options of Spark.
        formats: what ``--output`` may be; `Format` and perhaps more.
        examples: command lines for the end of its help.
    """
    options = collect_command_options(connects=connects, spark=spark, formats=formats)

    def command(ctx: typer.Context, **values: Any) -> None:
        shared = GivenOptions(**{key: values.pop(key) for key in options})
        given_options = ctx.obj if isinstance(ctx.obj, GivenOptions) else GivenOptions()
        execute(ctx.command_path, given_options.overridden(shared), function, values)

    own_parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    set_parameters(command, own_parameters, options)
    command.__doc__ = function.__doc__
    app = typer.Typer(add_completion=False) if group is None else group
    app.command(name or function.__name__, epilog=epilog_of(examples))(command)
    return app


def set_parameters(
    function: Callable[..., None], own_parameters: Sequence[inspect.Parameter], options: Mapping[str, Any]
) -> None:
    """Set the parameters from which typer declares a command.

    Args:
        function: takes the context and all parameters by keyword.
        own_parameters: parameters of this command alone.
        options: shared options: name -> annotated type.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *(parameter.replace(kind=keyword) for parameter in own_parameters),
        *(
            inspect.Parameter(name, keyword, default=DEFAULTS.get(name, False), annotation=kind)
            for name, kind in options.items()
        ),
    ]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer looks at
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def epilog_of(examples: tuple[str, ...]) -> str | None:
    """Format examples for the end of a help text."""
    if not examples:
        return None
    lines = (example.replace("[", "\\[") for example in examples)
    return "[b]Examples[/]\n\n" + "\n\n".join(f"  [cyan]{example}[/]" for example in lines)


def execute(name: str, given_options: GivenOptions, function: Command, values: dict[str, Any]) -> None:
    """Run a command, and exit with its code or that of its error.

    Raises:
        typer.Exit: always, unless the code is 0.
    """
    started = time.monotonic()
    with logs.record_log(debug=given_options.debug), raise_on_signals():
        try:
            code = function(CommandRun(given_options), **values) or exits.ExitCode.FINE
            sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:
            if isinstance(error, typer.Exit | typer.Abort):
                raise
            code = report(error, given_options)
        log.info("%s ended with %d after %.2f s", name, code, time.monotonic() - started)
    if code:
        raise typer.Exit(int(code))


def report(error: BaseException, given_options: GivenOptions) -> int:
    """Print an error in one line, and return the exit code."""
    from mqdssm.errors import MissingPackageError

    error = MissingPackageError.of(error) or error
    code = exits.code_of(error)
    if code == exits.PIPE_CLOSED:
        redirect_to_null(sys.stdout)
        return code
    log.error("%s: %s", type(error).__name__, exits.words_of(error))
    if given_options.debug:
        sys.stderr.write(make_lines_visible(redact("".join(traceback.format_exception(error)))))
    with contextlib.suppress(OSError):  # what was printed so far comes before the error
        sys.stdout.flush()
    with contextlib.suppress(OSError):  # the terminal may be gone
        print_error(error, code, is_json=given_options.is_for_programs)
    return code


def print_error(error: BaseException, code: int, *, is_json: bool) -> int:
    """Print an error to the standard error output; return the exit code."""
    say(exits.as_json(error, code) if is_json else f"error: {exits.words_of(error)}")
    return code


def redirect_to_null(stream: Any) -> None:
    """Redirect a closed stream to the null device.

    Otherwise Python prints an error at exit.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def open_standard_input() -> BinaryIO:
    """Return the standard input.

    Raises:
        UsageProblem: it was closed before the program began.
    """
    if sys.stdin is None:
        raise exits.UsageProblem("there is no standard input: name a file")
    return sys.stdin.buffer


def _ask_password(user: str) -> str:
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise exits.UsageProblem(
            f"user {user!r} needs a password, and there is no terminal to ask at: name a file with "
            "--password-file or MQDSSM_PASSWORD_FILE, or set MQDSSM_PASSWORD"
        )
    import getpass

    return getpass.getpass(f"Password of {make_visible(user)}: ", sys.stderr)
