"""The id of a test is the same in whichever way it is derived."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from indexing.identifiers import NAMESPACE, derive_test_id, make_test_id_deriver
from indexing.names import RepositoryName

# Names that can be stored: no surrogates, and no NUL.
TEST_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
REPOSITORIES = st.builds(
    RepositoryName, st.from_regex(r"[a-zA-Z0-9-]{1,9}", fullmatch=True), st.just("Widgets")
)


@given(REPOSITORIES, TEST_NAMES)
def test_a_deriver_derives_the_documented_id(repository: RepositoryName, test_name: str) -> None:
    expected = uuid.uuid5(NAMESPACE, f"{repository.key}\0{test_name}")
    assert derive_test_id(repository, test_name) == expected
    assert make_test_id_deriver(repository)(test_name) == expected
