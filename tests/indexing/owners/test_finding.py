"""Owners of files, compared with an independent library, and what they cost."""

from __future__ import annotations

import time

import pytest
from codeowners import CodeOwners
from hypothesis import example, given
from hypothesis import strategies as st

from indexing.errors import InvalidValueError
from indexing.owners.finding import OwnersReader
from indexing.owners.patterns import compile_pattern
from indexing.owners.rules import (
    MAX_OWNER_LENGTH,
    MAX_OWNERS,
    MAX_PATTERN_LENGTH,
    MAX_RULES,
    check_rules,
    read_rules,
)
from tests.growth import assert_linear
from tests.owners import read_owners


def owners_of(text: str, path: str | None) -> tuple[str | None, ...]:
    return tuple(read_owners(text).find(path, lambda: None))


_names = st.one_of(st.sampled_from(["*", "**", "a", "b"]), st.text("ab.*?", min_size=1, max_size=4))
_patterns = st.builds(
    lambda start, names, end: start + "/".join(names) + end,
    st.sampled_from(["", "/"]),
    st.lists(_names, min_size=1, max_size=4),
    st.sampled_from(["", "/"]),
)
_rooted_patterns = _patterns.map(lambda pattern: "/" + pattern.removeprefix("/"))
# A file may be written with a leading `./`, which is no directory here.
_paths = st.lists(st.text("ab.", min_size=1, max_size=3), min_size=1, max_size=5).filter(
    lambda path: path[0] != "."
)


@given(patterns=st.lists(_patterns, min_size=1, max_size=5), path=_paths)
@example(["**/"], ["a"])
@example(["a/**/"], ["a", "b"])
@example(["a/**/b/*"], ["a", "b", "b", "b"])
def test_the_owners_are_those_that_another_library_finds(
    patterns: list[str], path: list[str]
) -> None:
    text = "\n".join(f"{pattern} @{number}" for number, pattern in enumerate(patterns))
    expected = tuple(name for _, name in CodeOwners(text).of("/".join(path)))
    assert owners_of(text, "/".join(path)) == (expected or (None,))


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("[a-c]x", ["ax", "d/cx"], ["dx", "-x"]),
        ("[!a-c]x", ["dx"], ["ax"]),
        ("[^a-c]x", ["dx", "^x"], ["ax"]),
        ("[a-a]x", ["ax"], ["bx"]),
        ("[]a]x", ["]x", "ax"], ["x"]),
        ("[z-a]x", [], ["zx", "ax", "-x"]),
        ("[ab", ["[ab"], ["a", "b"]),
        (r"a\*b", ["a*b"], ["axb"]),
        (r"my\ tests/", ["my tests/a"], ["my"]),
        (r"/C\ #/", ["C #/a"], ["C/a"]),
        (r"\#a", ["#a"], ["a"]),
        ("a#b", ["a#b"], ["a"]),
        ("*.test.*", ["a.test.js"], ["a.js"]),
        ("/tests/*", ["tests/a", "tests\\a", "./tests/a"], ["tests/a/b", "/tests/a"]),
    ],
)
def test_a_pattern_matches_as_in_gitignore(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    owners = read_owners(f"{pattern} @x")
    assert [path for path in matching + others if owners.find(path, lambda: None) == ("@x",)] == (
        matching
    )


def test_the_last_rule_decides_and_may_take_owners_away() -> None:
    text = """
        # a comment
        *       @all mona@example.com @all  # and another
        /docs/
        /tests/ @@maintainer nobody
    """
    assert owners_of(text, "a.py") == ("@all", "mona@example.com")
    assert owners_of(text, "docs/a.md") == (None,)
    assert owners_of(text, "tests/a.py") == ("@@maintainer",)
    assert owners_of(text, None) == (None,)
    assert owners_of("", "a.py") == (None,)


def test_the_owners_are_those_of_all_sections() -> None:
    text = """
        * @all
        /docs/
        [Section] @default
        /docs/api/
        /src/ @web @all
        ^[Optional][2]
        /src/ @second
        [SECTION] @newer
        /src/a/
        /docs/api/b
    """
    assert owners_of(text, "a.py") == ("@all",)
    assert owners_of(text, "docs/a.md") == (None,)
    assert owners_of(text, "docs/api/a.md") == ("@default",)
    assert owners_of(text, "docs/api/b") == ("@newer",)
    assert owners_of(text, "src/b.py") == ("@all", "@web", "@second")
    assert owners_of(text, "src/a/b.py") == ("@all", "@newer", "@second")


def test_the_owners_of_a_heading_are_not_those_of_the_next_one() -> None:
    assert owners_of("[One] @x\n/a\n[Two]\n/b\n", "b") == (None,)


@given(
    sections=st.lists(st.lists(_rooted_patterns, min_size=1, max_size=3), min_size=2, max_size=4),
    path=_paths,
)
def test_each_section_decides_as_a_file_of_its_own(
    sections: list[list[str]], path: list[str]
) -> None:
    texts = [
        "\n".join(f"{pattern} @{number}-{line}" for line, pattern in enumerate(patterns))
        for number, patterns in enumerate(sections)
    ]
    alone = [owners_of(text, "/".join(path)) for text in texts]
    expected = tuple(name for names in alone for name in names if name is not None)
    together = "\n".join(f"[{number}]\n{text}" for number, text in enumerate(texts))
    assert owners_of(together, "/".join(path)) == (expected or (None,))


def test_only_gitlab_matches_a_relative_pattern_at_any_depth() -> None:
    text = "docs/*.md @docs\n/lib/*.md @lib\n"
    assert owners_of(text, "docs/a.md") == ("@docs",)
    assert owners_of(text, "src/docs/a.md") == (None,)
    text += "  [Below]\n!docs/old/\n*.md @below"
    assert owners_of(text, "src/docs/a.md") == ("@docs", "@below")
    assert owners_of(text, "src/docs/old/a.md") == (None,)
    assert owners_of(text, "src/lib/a.md") == ("@below",)


def test_an_exclusion_holds_against_all_rules_of_its_section() -> None:
    text = """
        * @all
        !*.md @web
        /docs/ @docs
        !
        [Section]
        * @section
        [Other]
        !/docs/a.md
        *.md @other
    """
    assert owners_of(text, "docs/a.py") == ("@docs", "@section")
    assert owners_of(text, "docs/a.md") == ("@section",)
    assert owners_of(text, "b.md") == ("@section", "@other")
    assert owners_of(r"\!a @x", "!a") == ("@x",)


def test_a_file_has_no_more_owners_than_a_rule_may_have() -> None:
    text = "\n".join(f"[{number}]\n* @{number}" for number in range(MAX_OWNERS + 1))
    assert owners_of(text, "a") == tuple(f"@{number}" for number in range(MAX_OWNERS))


def test_a_rule_whose_owners_are_all_invalid_is_skipped() -> None:
    text = "* @all\n/src/ octo-team @ team@\n/lib/ octo-team @web\n"
    assert owners_of(text, "src/a.py") == ("@all",)
    assert owners_of(text, "lib/a.py") == ("@web",)


@pytest.mark.parametrize(
    "text", ["#a @x", "  # a @x", "[Section] # @x\na", "* #a @x", "*\t#@x", "* @y\na#b # @x\na"]
)
def test_a_comment_gives_no_owners(text: str) -> None:
    assert owners_of(text, "a") == (None,)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a @x\n" * MAX_RULES + "b @x", MAX_RULES + 1),
        ("# a\n" + "a" * (MAX_PATTERN_LENGTH + 1), 2),
        ("a " + " ".join(f"@{n}" for n in range(MAX_OWNERS + 1)), 1),
        ("a @" + "a" * MAX_OWNER_LENGTH, 1),
    ],
    ids=["rules", "pattern", "owners", "owner"],
)
def test_a_file_that_is_too_much_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(InvalidValueError, match=f"^line {line}: "):
        check_rules(text)
    # It may have been stored before.
    assert len([*read_rules(text)]) in (1, MAX_RULES + 1)
    read_owners(text)


def test_what_exceeds_a_limit_in_a_stored_file_is_left_out() -> None:
    longest, longer = "a" * MAX_PATTERN_LENGTH, "a" * (MAX_PATTERN_LENGTH + 1)
    assert owners_of(f"{longest} @x", longest) == ("@x",)
    assert owners_of(f"{longer} @x", longer) == (None,)
    names = [f"@{number}" for number in range(MAX_OWNERS + 1)]
    assert owners_of(f"* {' '.join(names)}", "a") == tuple(names[:-1])
    assert owners_of("a @x\n" * MAX_RULES + "a @y", "a") == ("@x",)


@pytest.mark.parametrize(
    "pattern", ["*a" * 2_000 + "b", "/" + "**/a/" * 800 + "b", "[a-b]*" * 600, "?*" * 2_000]
)
def test_no_pattern_costs_more_than_its_length_times_that_of_the_path(pattern: str) -> None:
    for path in ("a" * 4_096, "a/" * 2_047 + "a"):
        began = time.process_time()
        owners_of(f"{pattern} @x", path)
        # The library above takes minutes for five stars and 200 characters.
        assert time.process_time() - began < 1


@pytest.mark.parametrize("pattern", ["a*", "*a*", "*[a]", "?" * 256])
def test_a_name_that_no_file_can_have_matches_few_wildcards(pattern: str) -> None:
    """Matching an expression of 4,000 characters against it would stop all other threads."""
    longest, longer = "a" * 255, "a" * 256
    for name in (longest, longer):
        assert owners_of("* @x", name) == owners_of("*a @x", name) == ("@x",)
        assert owners_of(f"{name} @x", f"b/{name}") == ("@x",)
    assert owners_of(f"{pattern} @x", longer) == (None,)
    assert owners_of(f"{pattern.removesuffix('?')} @x", longest) == ("@x",)


def test_many_rules_cost_a_path_few_looks() -> None:
    rules = [f"/src/package{number}/ @{number}" for number in range(5_000)]
    rules += [f"*.x{number} @{number}" for number in range(5_000)]
    rules += [f"**/test{number}/*.py @{number}" for number in range(2_500)]
    rules += [f"/src/*/test{number}/*.c @{number}" for number in range(2_500)]
    owners = read_owners("\n".join(rules))
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1

    assert owners.find("src/package7/test8/a.py", check) == ("@8",)
    assert owners.find("src/package7/test6/a.c", check) == ("@6",)
    assert owners.find("src/package7/a.x9", check) == ("@9",)
    assert owners.find("src/package7/a.c", check) == ("@7",)
    assert looks < 10
    asked = looks
    owners.find("src/package7/a.c", check)
    assert looks == asked


def test_a_file_is_read_in_steps() -> None:
    reader = OwnersReader("*.py @a\n/docs/ @b\n*.js @c\n")
    # A step without time reads one rule; the last one notices the end of the file.
    assert [reader.read(-1) for _ in range(3)] == [None, None, None]
    owners = reader.read(-1)
    assert owners is not None
    assert owners.find("docs/a.js", lambda: None) == ("@c",)
    assert reader.read(-1) is owners


@pytest.mark.parametrize("opening", ["[", r"[\]", "[!"])
def test_brackets_that_open_no_class_are_literal_and_cost_little(opening: str) -> None:
    assert owners_of(f"{opening * 3}a @x", opening.replace("\\", "") * 3 + "a") == ("@x",)
    assert_linear(lambda size: lambda: compile_pattern(opening * size), 512)
