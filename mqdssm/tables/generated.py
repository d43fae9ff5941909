"""Files that are generated from the tables, as text; the caller writes or compares them."""

from collections.abc import Mapping

from mqdssm.tables import ldif, markdown, replication_page, rights_page


def generated_files() -> Mapping[str, str]:
    """Return every generated file: its path from the root of the project -> its text."""
    return {
        **{
            name: text
            for part in (ldif.MSMQ, ldif.REPLICATION)
            for name, text in (
                (f"ldif/{part.name}.schema", ldif.openldap_schema_text(part)),
                (f"ldif/{part.name}.ldif", ldif.openldap_config_ldif(part)),
            )
        },
        "ldif/base-tree.ldif": ldif.base_tree_sample(),
        **{f"docs/tables/{name}": text for name, text in markdown.pages().items()},
        "docs/tables/rights.md": rights_page.page(),
        "docs/tables/replication.md": replication_page.page(),
    }
