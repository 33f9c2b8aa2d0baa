"""docs/own-script.md has the items of the same work."""

from tools.docs import same_work_table


def test_the_docs_have_the_list() -> None:
    """As it is in the code: `python -m tools.docs.same_work_table` writes it."""
    page = same_work_table.PATH.read_text(encoding="utf-8")

    assert page == same_work_table.in_page(page)
