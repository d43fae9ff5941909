"""MQIS tables as sets and as rows of a migration: what both accept is the same."""

from uuid import UUID

import pyarrow as pa
import pytest
from support.mqis.tables import read_sets
from support.spark.element_batches import batches, columns_of

from mqdssm.pipeline.frames.columns import TYPES
from mqdssm.pipeline.migrate.rows import gates_of, read_row
from mqdssm.pipeline.mqis.folder import find_files, read_rows, read_source_table
from mqdssm.pipeline.mqis.mapping import SourceMapping
from mqdssm.samples.forms import SampleForm, TableForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.tables.mqis import MQIS_TABLES, SITE


@pytest.mark.slow
@pytest.mark.parametrize("form", TableForm)
def test_rows_are_what_sets_hold(tmp_path, form):
    sample = EnterprisePlan(sites=4, machines=20, queues=300, users=6, seed=5)
    generate(sample, tmp_path, SampleForm.MQIS, table_form=form, faults=True)
    mapping = SourceMapping()
    rows = {
        name: [row for part in read_source_table(files, mapping).files for row in read_rows(part, mapping)]
        for name, files in find_files(tmp_path, mapping).items()
    }
    gates = {UUID(row.cells[SITE.key]): gates_of(row.cells) for row in rows["Site"] if SITE.key in row.cells}
    compared = 0
    for name, objects in read_sets(tmp_path).items():
        table = next(one for one in MQIS_TABLES.values() if one.type_name == name)
        read = [
            read_row(table, row.cells, row.problems, keeps_create_time=True, gates=gates)
            for row in rows[table.name]
        ]
        elements = [one.element for one in read if one.element is not None]
        # what no directory keeps has a column all the same
        kept = [
            column
            for column in columns_of(TYPES[name])
            if column.name in objects.column_names
            and any(column.name in one.populated for one in elements)
            # sets show a role that contradicts another column, for the rule that looks for it
            and column.name != "DirectoryServerType"
        ]
        mine = pa.Table.from_batches(batches(elements, kept)).to_pylist()
        theirs = objects.select([column.name for column in kept]).to_pylist()
        wanted: dict[str, list[dict[str, object]]] = {}
        for one in theirs:
            wanted.setdefault(str(one["Identifier"]), []).append(one)
        for one in mine:
            assert one in wanted[str(one["Identifier"])], name
        compared += len(mine)
    assert compared > 300
