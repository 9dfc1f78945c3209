"""The structure of the code: the size of each part, its imports, the longest chain of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]

MAX_FLAT_MODULES = 8
MAX_CHAIN = 10

# An import from a module of tests, which belongs into a module without tests.
FROM_TESTS = re.compile(
    r"^\s*from tests(?:\.\w+)*(?:\.test_\w+ import| import test_)", re.MULTILINE
)


def test_few_modules_lie_flat_in_service() -> None:
    flat = [path.name for path in (ROOT / "service").glob("*.py") if path.name != "__init__.py"]
    assert len(flat) <= MAX_FLAT_MODULES, flat


def test_modules_are_short() -> None:
    lengths = sorted(
        len(path.read_text(encoding="utf-8").splitlines())
        for package in ("service", "indexing")
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    )
    assert lengths[len(lengths) // 2] < 130
    assert lengths[-1] <= 400


def test_no_module_imports_from_a_module_of_tests() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        imports = FROM_TESTS.findall(path.read_text(encoding="utf-8"))
        assert not imports, f"{path}: {imports}"


def test_no_chain_of_imports_in_service_is_long() -> None:
    """The dashboard and the traces count as a folder each: only what starts a process uses them."""
    graph = grimp.build_graph("service", cache_dir=None)
    for package in ("service.ui", "service.tracing"):
        graph.squash_module(package)
    imports = {
        module: graph.find_modules_directly_imported_by(module) - {"service"}
        for module in graph.modules
    }
    chain = find_longest_chain(imports)
    assert len(chain) <= MAX_CHAIN, " → ".join(chain)


def test_the_longest_chain_is_found() -> None:
    imports = {"a": {"b", "d"}, "b": {"c"}, "c": {"d"}, "d": set[str]()}
    assert find_longest_chain(imports) == ("a", "b", "c", "d")


def find_longest_chain(imports: Mapping[str, set[str]]) -> tuple[str, ...]:
    """The longest path in a graph without cycles."""

    @cache
    def find_from(module: str) -> tuple[str, ...]:
        return (module, *max(map(find_from, sorted(imports[module])), key=len, default=()))

    return max(map(find_from, sorted(imports)), key=len)
