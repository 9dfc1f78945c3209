"""The files that pages load are those that their authors published."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import service.ui
from tests.service.front_door import FrontDoor

UI = Path(service.ui.__file__).parent
OURS = UI / "assets" / "vendor"
# A file that only the tests use.
OF_TESTS = Path(__file__).parent / "vendor"


@pytest.mark.parametrize("folder", [OURS, OF_TESTS], ids=["assets", "tests"])
def test_every_file_of_others_has_its_version_licence_and_hash(folder: Path) -> None:
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in (folder / "README.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    assert {row[0] for row in rows} == {path.name for path in folder.glob("*.js")}
    for name, _package, _licence, licence_file, digest in rows:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
        assert (folder / licence_file).read_text(encoding="utf-8")


async def test_a_file_is_kept_for_ever_under_its_version_alone(door: FrontDoor) -> None:
    page = await door.ask("/ui/sign-in", {})
    script = page.body.decode().partition('src="')[2].partition('"')[0]
    lasting = await door.ask(script, {"Accept-Encoding": "gzip"})
    assert "immutable" in lasting.headers["Cache-Control"]
    assert lasting.headers["Content-Encoding"] == "gzip"
    other = await door.ask(script + "0", {})
    assert other.headers["Cache-Control"] == "no-cache"
    assert other.body == lasting.body
    assert (await door.ask("/ui/_/..%2Fsession.py", {})).status == 404


def test_every_class_of_the_style_sheet_is_one_of_a_page() -> None:
    rules = re.sub(
        r"/\*.*?\*/", "", (UI / "assets" / "style.css").read_text("utf-8"), flags=re.DOTALL
    )
    styled = {
        name
        for selector in re.findall(r"([^{};]+)\{", rules)
        for name in re.findall(r"\.([a-z][\w-]*)", selector)
    }
    # Those of shapes are in the modules that draw them.
    sources = [*UI.glob("templates/*.html"), *UI.glob("assets/*.js"), *UI.glob("*.py")]
    words = {word for path in sources for word in re.findall(r"[\w-]+", path.read_text("utf-8"))}
    assert styled - words == set()
