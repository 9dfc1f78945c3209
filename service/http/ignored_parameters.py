"""Query parameters that an operation does not have: listed in a header, never refused. Pure.

Clients send newer parameters to older services. The header tells them which ones had no effect.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import quote_from_bytes

from service.http.query_string import unquote

IGNORED_HEADER: Final = "X-Ignored-Parameters"
# Enough to find a mistake; the header must not exceed what clients accept.
MAX_NAMES: Final = 16
MAX_NAME_LENGTH: Final = 64
# In place of the names that are left out. No name looks like this: `*` is percent-encoded.
MORE: Final = "*"


def name_ignored(raw_names: Collection[str]) -> str | None:
    """The value of the header for these raw names; `None` where there is nothing to tell.

    Sorted and without repeats. All but letters, digits and `-._~` is percent-encoded.
    """
    named: set[str] = set()
    more = False
    for raw_name in sorted(raw_names):
        name = quote_from_bytes(unquote(raw_name), safe="")
        if not name or name in named:
            continue
        if len(name) > MAX_NAME_LENGTH:
            more = True
        elif len(named) == MAX_NAMES:
            more = True
            break
        else:
            named.add(name)
    return ", ".join([*sorted(named), *([MORE] if more else [])]) or None
