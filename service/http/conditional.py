"""Conditional requests (RFC 9110, section 13.1.2): does the client have the response? Pure.

`Request.if_none_match` of aiohttp reads less: only the first of several fields, and no tag after a
malformed one. Nor does it distinguish `*` from the tag `"*"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

# RFC 9110, section 8.8.3. A malformed tag between two commas matches nothing.
_TAG: Final = re.compile(r'\s*(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)|[^,]*(?:,|$)')

# How many tags are read of all fields that may contain the one. A client has a few. A request may
# have a megabyte of commas, which would block the event loop for a third of a second.
_MOST_TAGS: Final = 1_000


def is_known(if_none_match: Iterable[str], etag: str) -> bool:
    """Whether the `If-None-Match` fields contain `etag`, or `*`, which matches any response.

    The comparison is weak (it ignores `W/`), as the RFC requires here. Of thousands of tags, not
    all are read; the client then gets a response that it may have.
    """
    left = _MOST_TAGS
    for field in if_none_match:
        if field == etag or field.strip() == "*":
            return True
        if etag in field:
            for found in islice(_TAG.finditer(field), left):
                left -= 1
                if found[1] == etag:
                    return True
    return False
