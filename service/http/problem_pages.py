"""Problems as small pages, for browsers whose requests do not reach a page of the dashboard."""

from __future__ import annotations

from html import escape
from typing import Final

from aiohttp import web
from aiohttp.web import BaseRequest

from service.http import problems
from service.http.problems import Problem
from service.http.request_id import REQUEST_ID
from service.http.targets import UI_PREFIX

# The classes are those of the dashboard, into whose pages a script puts it.
_PART: Final = (
    '<div class="state broken" role="alert">'
    "<{level}>{title}</{level}><p>{detail}.</p>{rest}</div>\n"
)
_REQUEST: Final = '<p class="request">request {id}</p>'
_HOME: Final = '<p><a href="{target}">All repositories</a></p>'
# Pages of the dashboard are less deep; a relative link from more folders would be long.
_MAX_DEPTH: Final = 8
# It loads nothing, because an overloaded service has no time for more requests.
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · mergewatch</title>
</head>
<body>
<main>
{part}</main>
</body>
</html>
"""


def respond(request: BaseRequest, problem: Problem) -> web.Response:
    """Return a problem as a page of the dashboard, or as a part of one that a script requests.

    Requests to other paths get a problem body.
    """
    if not request.raw_path.startswith(UI_PREFIX):
        return problems.response(problem)
    text = {
        "title": escape(problem.title),
        "detail": escape(problem.detail[:1].upper() + problem.detail[1:]),
    }
    headers = {"Cache-Control": "no-store", **problem.headers}
    is_part = request.headers.get("HX-Request") == "true"
    request_id = request.get(REQUEST_ID)
    rest = "" if request_id is None else _REQUEST.format(id=escape(request_id))
    if not is_part:
        rest += _HOME.format(target=_find_home(request.raw_path))
    body = _PART.format(**text, rest=rest, level="h2" if is_part else "h1")
    if is_part:
        # Within the element that htmx would replace, so that the next answer has a place to go.
        headers["HX-Reswap"] = "innerHTML"
    else:
        body = _PAGE.format(title=text["title"], part=body)
    return web.Response(status=problem.status, text=body, content_type="text/html", headers=headers)


def _find_home(target: str) -> str:
    """Return a link to the dashboard, relative because a proxy may strip a prefix of the path."""
    depth = target.partition("?")[0].count("/", len(UI_PREFIX))
    return UI_PREFIX if depth > _MAX_DEPTH else "../" * depth or "./"
