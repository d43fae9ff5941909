"""The files that are generated from the tables, as text: whoever calls writes or compares them."""

from collections.abc import Mapping

from mqdssm.tables import ldif, markdown, rights_page


def generated_files() -> Mapping[str, str]:
    """Every generated file: its path from the root of the project to its text."""
    return {
        "ldif/msmq.schema": ldif.openldap_schema_text(),
        "ldif/msmq.ldif": ldif.openldap_config_ldif(),
        "ldif/base-tree.ldif": ldif.base_tree_sample(),
        **{f"docs/tables/{name}": text for name, text in markdown.pages().items()},
        "docs/tables/rights.md": rights_page.page(),
    }
