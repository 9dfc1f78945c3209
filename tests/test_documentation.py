"""What the documents say, held against the code that they say it of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from service.cli import main
from service.settings import DECLARATIONS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_readme_lists_every_setting_as_it_is_declared() -> None:
    rows = re.findall(r"^\| `(MERGEWATCH_\w+)` \| (.+?) \| (.+) \|$", README, re.MULTILINE)
    assert [(name, default.strip("`"), text) for name, default, text in rows] == [
        (declared.variable, declared.default, declared.description) for declared in DECLARATIONS
    ]


def test_the_readme_names_every_command() -> None:
    assert [name for name in main.commands if f"`{name}`" not in README] == []


DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md"))
)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_that_a_document_names_is_there(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
    assert named <= set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_make_lists_every_target() -> None:
    targets = re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE)
    described = re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE)
    assert described == targets


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_files_that_a_document_names_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    named = re.findall(r"`((?:service|indexing|tests|examples)/[\w./]+)`", text)
    folder = (ROOT / document).parent
    missing = [name for name in linked if not (folder / name).exists()]
    assert missing + [name for name in named if not (ROOT / name).exists()] == []


def test_modules_are_short() -> None:
    lengths = sorted(
        len(path.read_text(encoding="utf-8").splitlines())
        for package in ("service", "indexing")
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    )
    assert lengths[len(lengths) // 2] < 130
    assert lengths[-1] <= 400
