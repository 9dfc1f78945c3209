"""The form of a token. Pure."""

from __future__ import annotations

import re
from typing import Final

# RFC 6750, section 2.1; far longer than those of any host, and no longer than a header may be.
TOKEN_MAX_LENGTH: Final = 4_096
_TOKEN: Final = re.compile(rf"[A-Za-z0-9\-._~+/]{{1,{TOKEN_MAX_LENGTH}}}=*")


def is_token(text: str) -> bool:
    """Whether the text has the form of a token that a code host may have issued."""
    return len(text) <= TOKEN_MAX_LENGTH and _TOKEN.fullmatch(text) is not None
