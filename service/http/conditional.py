"""Conditional requests (RFC 9110, section 13.1.2): does the client have the response? Pure.

`Request.if_none_match` of aiohttp reads less: only the first of several fields, and no tag after
what is none. It cannot tell `*` from the tag `"*"` either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# RFC 9110, section 8.8.3. What is no entity tag between two commas matches nothing.
_TAG: Final = re.compile(r'\s*(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)|[^,]*(?:,|$)')


def is_known(if_none_match: Iterable[str], etag: str) -> bool:
    """Whether the fields `If-None-Match` name the strong tag of the answer, or any at all.

    Tags are compared weakly, as the RFC asks for here.
    """
    for field in if_none_match:
        if field == etag or field.strip() == "*":
            return True
        if any(found[1] == etag for found in _TAG.finditer(field)):
            return True
    return False
