"""All scenarios by name, in the order in which they are run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from hardening.findings import Finding
from hardening.ground import Ground
from hardening.scenarios import (
    broken_paths,
    costly_globs,
    credentials,
    crossings,
    cursors,
    cut_file,
    elasticsearch_kills,
    full_disk,
    header_injection,
    hidden_repositories,
    numbers_and_texts,
    overload,
    redis_faults,
    revocation,
    schema_cases,
    search_for_credentials,
    shared_file,
    sigterm,
    slow_clients,
)

Scenario = Callable[[Ground], Coroutine[Any, Any, list[Finding]]]

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "credentials": credentials.run,
    "hidden-repositories": hidden_repositories.run,
    "cursors": cursors.run,
    "header-injection": header_injection.run,
    "numbers-and-texts": numbers_and_texts.run,
    "costly-globs": costly_globs.run,
    "crossings": crossings.run,
    "sigterm": sigterm.run,
    "revocation": revocation.run,
    "redis-faults": redis_faults.run,
    "broken-paths": broken_paths.run,
    "elasticsearch-kills": elasticsearch_kills.run,
    "slow-clients": slow_clients.run,
    "overload": overload.run,
    "full-disk": full_disk.run,
    "shared-file": shared_file.run,
    "cut-file": cut_file.run,
    "schema-cases": schema_cases.run,
    # The last: it looks through what the others left.
    "search-for-credentials": search_for_credentials.run,
}
