"""`pytest --quick`: the tests that start no process and are not marked `slow`.

There is no list of those tests. A test that asks for a server by a fixture, or by the parameter of
one, is deselected. A test that starts a process in another way (the service, any command) is
skipped at that moment.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SLOW_MODULE = "\npytestmark = pytest.mark.slow\n"
SKIPPED = "--quick starts no process"
# The fixtures whose parameter says which servers a store or service uses.
STACK_FIXTURES = ("make_place", "place_and_key", "settings", "shared_stack", "stack", "store")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="leave out what is slow or starts a process"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore whole modules that are slow: importing some of them takes seconds."""
    if config.getoption("--quick") and collection_path.suffix == ".py":
        return SLOW_MODULE in collection_path.read_text(encoding="utf-8") or None
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick"):
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        is_quick = not (item.get_closest_marker("slow") or _needs_server(item))
        (kept if is_quick else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def _needs_server(item: pytest.Item) -> bool:
    """Whether it asks for a server by name, or by the parameter of a fixture that does."""
    if not isinstance(item, pytest.Function):
        return False
    if "without_servers" in item.fixturenames:
        return True
    given = item.callspec.params if hasattr(item, "callspec") else {}
    chosen = [str(given[name]) for name in STACK_FIXTURES if name in given]
    return any(server in value for value in chosen for server in ("elasticsearch", "redis"))


@pytest.fixture(scope="session")
def without_servers(request: pytest.FixtureRequest) -> None:
    """Skip a test that asks for a server when none may be used."""
    if request.config.getoption("--quick"):
        pytest.skip(SKIPPED)


class _Guard:
    """Refuses to start a process while a test runs, and records whether the test tried to."""

    def __init__(self) -> None:
        self.running = False
        self.refused = False

    def __call__(self, event: str, _: tuple[object, ...]) -> None:
        if self.running and event == "subprocess.Popen":
            self.refused = True
            # The error that the code under test gets if the system cannot start another process.
            raise PermissionError(SKIPPED)


_GUARD = _Guard()


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        # An audit hook cannot be removed; this one lasts as long as the process.
        sys.addaudithook(_GUARD)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    _GUARD.running, _GUARD.refused = True, False
    try:
        return (yield)
    finally:
        _GUARD.running = False


@contextmanager
def _skipping() -> Iterator[None]:
    """Skip a test that failed because it may not start a process: it is not a quick one.

    Skipping here instead of in the report saves the traceback, which takes most of a second.
    """
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        if _GUARD.refused:
            # The tests that share a fixture all get the error of its first failure.
            error.add_note(SKIPPED)
        if SKIPPED in getattr(error, "__notes__", ()):
            raise pytest.skip.Exception(SKIPPED, _use_item_location=True) from None
        raise


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Generator[None]:
    with _skipping():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call() -> Generator[None]:
    with _skipping():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Generator[None]:
    with _skipping():
        return (yield)
