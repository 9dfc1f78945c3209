"""Log lines of commands, on standard error: the message, its fields and its traceback.

`mergewatch serve` logs in the format of the service instead.
"""

from __future__ import annotations

import logging
from typing import Final

# Fields may be names that strangers chose. Those of repositories have no maximum length.
_SHOWN_CHARACTERS: Final = 200


def show_fields() -> None:
    """Let log lines of this process have their fields, unless it configures logging."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(FieldsFormatter())


class FieldsFormatter(logging.Formatter):
    """Adds the fields of `extra` to a message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        # Imported here, as most commands log nothing, and these modules load aiohttp and rich.
        from service.cli.output import visible
        from service.logs import OF_EVERY_RECORD

        parts = [super().formatMessage(record)]
        for name, value in vars(record).items():
            if name not in OF_EVERY_RECORD:
                text = str(value)
                shown = visible(text[:_SHOWN_CHARACTERS])
                parts.append(f"{name}={shown}{'…' if len(text) > _SHOWN_CHARACTERS else ''}")
        return " ".join(parts)
