"""Finds environment variables that have no effect.

Some are probably misspelled settings, others need a setting that is not set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from service.config.prefix import PREFIX
from service.config.settings import DECLARATIONS

# How much two names share, from 0 to 1, so that one is taken for a misspelling of the other; and
# how many letters may be too many or missing. A further word makes another name.
_ALIKE: Final = 0.85
_LETTERS: Final = 2

_ELASTICSEARCH: Final = PREFIX + "ELASTICSEARCH_"
ELASTICSEARCH_URL: Final = _ELASTICSEARCH + "URL"


def find_misspelled(variables: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each variable whose name is almost that of a setting, and the name of the setting.

    Others with the prefix are left alone: Kubernetes sets some for a service of that name.
    """
    settings = {declared.variable.removeprefix(PREFIX) for declared in DECLARATIONS}
    for variable in sorted(variables):
        name = variable.removeprefix(PREFIX)
        if name != variable and name not in settings:
            alike = [each for each in sorted(settings) if abs(len(each) - len(name)) <= _LETTERS]
            for close in get_close_matches(name, alike, 1, _ALIKE):
                yield variable, PREFIX + close


def find_without_url(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield each setting of Elasticsearch that is set although there is no URL.

    The embedded store is used then. An empty variable counts as unset.
    """
    if environment.get(ELASTICSEARCH_URL):
        return
    for declared in DECLARATIONS:
        if declared.variable.startswith(_ELASTICSEARCH) and environment.get(declared.variable):
            yield declared.variable
