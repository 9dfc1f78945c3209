"""The files that pages load: style sheet, scripts, icon. Compressed once, with hashes in URLs."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from aiohttp import web

from service.http import problems

_FOLDER: Final = Path(__file__).parent / "assets"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_LEVEL: Final = 9
# Short enough for a URL, and different for each content.
_VERSION_LENGTH: Final = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, plain and compressed; `version` is a prefix of its hash."""

    content: bytes
    packed: bytes
    media_type: str
    version: str


@cache
def _list_names() -> dict[str, Path]:
    return {path.name: path for path in _FOLDER.rglob("*") if path.suffix in _TYPES}


@cache
def version_of(name: str) -> str:
    """Return a prefix of the hash of a file, for its URL."""
    return hashlib.sha256(_list_names()[name].read_bytes()).hexdigest()[:_VERSION_LENGTH]


@cache
def load_asset(name: str) -> Asset:
    """Load the file with this name.

    Raises:
        KeyError: there is no such file.
    """
    path = _list_names()[name]
    content = path.read_bytes()
    packed = gzip.compress(content, _LEVEL, mtime=0)
    return Asset(content, packed, _TYPES[path.suffix], version_of(name))


async def send_asset(request: web.Request) -> web.Response:
    """GET /ui/_/{name}."""
    name = request.match_info["name"]
    if name not in _list_names():
        raise problems.not_found("file")
    asset = await asyncio.to_thread(load_asset, name)
    # A page of another release names another version, under which this file must not be cached.
    lasting = request.query.get("v") == asset.version
    headers = {
        "Content-Type": asset.media_type,
        "Cache-Control": "public, max-age=31536000, immutable" if lasting else "no-cache",
        "Vary": "Accept-Encoding",
    }
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        return web.Response(body=asset.packed, headers={**headers, "Content-Encoding": "gzip"})
    return web.Response(body=asset.content, headers=headers)
