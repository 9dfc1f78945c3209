"""Conditional requests (RFC 9110, section 13.1.2): does the client have the response? Pure.

`Request.if_none_match` of aiohttp reads less: only the first of several fields, and no tag after a
malformed one. Nor does it distinguish `*` from the tag `"*"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# RFC 9110, section 8.8.3. A malformed tag between two commas matches nothing.
_TAG: Final = re.compile(r'\s*(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)|[^,]*(?:,|$)')


def is_known(if_none_match: Iterable[str], etag: str) -> bool:
    """Whether the `If-None-Match` fields contain `etag`, or `*`, which matches any response.

    The comparison is weak (it ignores `W/`), as the RFC requires here.
    """
    for field in if_none_match:
        if field == etag or field.strip() == "*":
            return True
        if any(found[1] == etag for found in _TAG.finditer(field)):
            return True
    return False
