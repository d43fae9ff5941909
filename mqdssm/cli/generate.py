"""``mqdssm generate``: generate a synthetic enterprise."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.output import Output
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command
from mqdssm.samples.forms import FAULTS_NAME, LoadingMode, SampleForm, TableForm

if TYPE_CHECKING:
    from mqdssm.samples.generate import WrittenSample

USERS_A_MACHINE = 4

Tables = Annotated[
    TableForm | None,
    typer.Option("--tables", help="File format of the MQIS tables. Default: parquet."),
]
LoadedBy = Annotated[
    LoadingMode | None,
    typer.Option(
        "--loader",
        help="Program that will load the LDIF. With slapadd the files have times and more kinds "
        "of defects. Default: ldapadd.",
    ),
]


def generate(
    run: CommandRun,
    *,
    sites: Annotated[int, typer.Option("--sites", metavar="N", min=1, help="Number of sites.")],
    machines: Annotated[int, typer.Option("--machines", metavar="N", min=1, help="Number of machines.")],
    queues: Annotated[int, typer.Option("--queues", metavar="N", min=0, help="Number of queues.")],
    sample_form: Annotated[SampleForm, typer.Option("--format", help="MQIS tables, or LDIF for OpenLDAP.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder for the files: new or empty.")],
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            metavar="S",
            min=0,
            help="Seed of the random numbers: the same seed gives the same enterprise.",
        ),
    ] = 0,
    users: Annotated[
        int | None,
        typer.Option(
            "--users", metavar="N", min=0, help="Number of users. Default: a quarter of the machines."
        ),
    ] = None,
    faults: Annotated[
        bool,
        typer.Option("--faults", help=f"Add objects with defects; {FAULTS_NAME} lists them."),
    ] = False,
    tables: Tables = None,
    loader: LoadedBy = None,
    base_dn: Annotated[
        str | None,
        typer.Option("--base-dn", metavar="DN", help="Root of the directory. Default: DC=example,DC=com."),
    ] = None,
) -> None:
    """Generate a synthetic enterprise of any size.

    The enterprise has sites, links, machines, queues and users.
    The same numbers and the same seed give the same objects on every machine.
    """
    from mqdssm.samples.generate import generate as write
    from mqdssm.samples.plan import EnterprisePlan

    _refuse_idle(sample_form, tables, loader)
    with convert_usage_problems():
        plan = EnterprisePlan(
            sites=sites,
            machines=machines,
            queues=queues,
            users=machines // USERS_A_MACHINE if users is None else users,
            seed=seed,
            **({} if base_dn is None else {"root": base_dn}),
        )
    with run.output.progress("objects written:") as more:
        forms = (tables or TableForm.PARQUET, loader or LoadingMode.LDAPADD)
        written = write(plan, to, sample_form, *forms, faults=faults, report=more)
    _tell(run.output, written, to, sample_form, faults=faults)


def _refuse_idle(form: SampleForm, tables: TableForm | None, loader: LoadingMode | None) -> None:
    """Raise UsageProblem for options without effect.

    Raises:
        UsageProblem: it is of the other form.
    """
    for option, value, of in (("--tables", tables, SampleForm.MQIS), ("--loader", loader, SampleForm.LDIF)):
        if value is not None and form is not of:
            raise UsageProblem(f"{option} is for --format {of.value} alone: leave it out")


def _tell(output: Output, written: "WrittenSample", to: Path, form: SampleForm, *, faults: bool) -> None:
    if output.is_json:
        document = {"files": written.files, "objects": dict(written.objects)}
        output.document(document | ({"faults": dict(written.faults)} if faults else {}))
        return
    kind = "table" if form is SampleForm.MQIS else "type"
    output.rows((kind, "objects"), [(name, str(count)) for name, count in written.objects.items()])
    if faults:
        total = sum(written.faults.values())
        output.note(f"{total} objects are broken on purpose: {to / FAULTS_NAME} lists them")
    output.note(f"written to {to}: {', '.join(written.files)}")


app = declare_command(
    generate,
    connects=False,
    examples=(
        "mqdssm generate --sites 3 --machines 200 --queues 5000 --format mqis --to sample",
        "mqdssm generate --sites 3 --machines 200 --queues 5000 --seed 7 --faults --format ldif --to broken",
    ),
)
