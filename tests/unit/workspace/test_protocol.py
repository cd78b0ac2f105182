"""What the runner and the server must compute alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentrun.workspace.protocol import FileEntry, Part, parse_uri, resource_uri, tree_digest

NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\x00"), min_size=1, max_size=20
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
ENTRIES = st.builds(
    FileEntry,
    path=PATHS,
    sha256=st.binary(min_size=32, max_size=32).map(bytes.hex),
    size=st.integers(0, 1 << 40),
    mode=st.integers(0, 0o777),
)


@given(PATHS, st.integers(0, 1 << 40), st.integers(0, 1 << 40) | st.none())
def test_an_address_says_exactly_what_it_was_made_from(
    path: str, offset: int, limit: int | None
) -> None:
    uri = resource_uri(path, offset=offset, limit=limit)
    assert uri.isascii()
    assert parse_uri(uri) == Part(path, offset if limit is not None else 0, limit)


@given(st.lists(ENTRIES, unique_by=lambda entry: entry.path, max_size=6))
def test_a_digest_does_not_depend_on_the_order(entries: list[FileEntry]) -> None:
    by_content = sorted(entries, key=lambda entry: entry.sha256)
    assert tree_digest(entries) == tree_digest(by_content)


@given(ENTRIES, ENTRIES)
def test_different_files_have_different_digests(one: FileEntry, two: FileEntry) -> None:
    assert (tree_digest([one]) == tree_digest([two])) == (one == two)
