"""Log lines: one format for all libraries, with the request id and no local variables."""

from __future__ import annotations

import logging
import sys

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from yarl import URL

from service.config.settings import LogFormat, LogLevel
from service.logs import ACCESS_LOGGER, AccessLog, configure_logging, request_id


@pytest.fixture(autouse=True)
def _without_a_request() -> None:
    request_id.set(None)


def test_other_libraries_lines_are_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogLevel.INFO, LogFormat.JSON)
    request_id.set("abc")
    logging.getLogger("aiohttp.server").warning("no %s", "luck", extra={"port": 80})
    line = orjson.loads(capsys.readouterr().err)
    assert line["event"] == "no luck"
    assert (line["level"], line["logger"]) == ("warning", "aiohttp.server")
    assert (line["request_id"], line["port"]) == ("abc", 80)
    assert line["timestamp"].endswith("Z")


def test_lines_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogLevel.WARNING, LogFormat.JSON)
    logging.getLogger("a").info("quiet")
    logging.getLogger("b").info("quiet")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("form", list(LogFormat))
def test_a_traceback_shows_no_variables(
    capsys: pytest.CaptureFixture[str], form: LogFormat
) -> None:
    configure_logging(LogLevel.INFO, form)
    credential = "-".join(["mw", "secret"])
    try:
        assert credential
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("a").exception("failed")
        logging.getLogger("b").exception("failed")
    written = capsys.readouterr().err
    assert written.count("ValueError: broken") == 2
    assert credential not in written


@pytest.mark.parametrize(("value", "is_coloured"), [("", True), ("1", False)])
def test_text_for_a_terminal_is_coloured_unless_no_color_is_set(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    value: str,
    is_coloured: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    configure_logging(LogLevel.INFO, LogFormat.TEXT)
    logging.getLogger("a").info("seen")
    assert ("\x1b" in capsys.readouterr().err) is is_coloured


def test_untrusted_text_cannot_start_a_new_log_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(LogLevel.INFO, LogFormat.JSON)
    logging.getLogger("a").info("seen", extra={"path": '/a\n{"event":"forged"}'})
    assert len(capsys.readouterr().err.splitlines()) == 1


def log_of(capsys: pytest.CaptureFixture[str], target: str) -> str:
    """Return the path as it is logged."""
    configure_logging(LogLevel.DEBUG, LogFormat.JSON)
    request = make_mocked_request("GET", "/").clone(rel_url=URL(target, encoded=True))
    AccessLog(logging.getLogger(ACCESS_LOGGER), "").log(request, web.Response(), 0.001)
    return str(orjson.loads(capsys.readouterr().err)["path"])


@pytest.mark.parametrize("pasted", ["mw_{}", "mw%5f{}", "%6D%77_{}", "x/mw_{}.json", "gh%73_{}"])
def test_no_writing_of_a_key_in_a_path_is_logged(
    capsys: pytest.CaptureFixture[str], pasted: str
) -> None:
    logged = log_of(capsys, f"/v1/{pasted.format('S3cr3t')}?x=y")
    assert logged.startswith("/v1/")
    assert "S3cr3t" not in logged


@pytest.mark.parametrize("path", ["/v1/a-b/c.d/~e", "/a%2Fb/%0D%0A", "/%C3%A9/%FF", "/a:b@c;d=e"])
def test_another_path_is_logged_as_it_was_sent(
    capsys: pytest.CaptureFixture[str], path: str
) -> None:
    assert log_of(capsys, path) == path
