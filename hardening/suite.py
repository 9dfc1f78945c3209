"""All scenarios by name, in their order."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from hardening.findings import Finding
from hardening.harness import Harness
from hardening.scenarios import (
    backups,
    broken_paths,
    costly_globs,
    credentials,
    cursors,
    cut_file,
    elasticsearch_kills,
    fair_ingest,
    full_disk,
    generated_bodies,
    grown_lists,
    growth,
    header_injection,
    hidden_repositories,
    hostile_bodies,
    largest_searches,
    matrix_history,
    no_new_indices,
    numbers_and_texts,
    open_tails,
    overload,
    redis_faults,
    redis_modes,
    repository_isolation,
    revocation,
    schema_cases,
    search_for_credentials,
    shared_file,
    sigterm,
    slow_clients,
    tiny_chunks,
    wrong_clocks,
)

Scenario = Callable[[Harness], Coroutine[Any, Any, list[Finding]]]

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "credentials": credentials.run,
    "hidden-repositories": hidden_repositories.run,
    "cursors": cursors.run,
    "header-injection": header_injection.run,
    "numbers-and-texts": numbers_and_texts.run,
    "costly-globs": costly_globs.run,
    "repository-isolation": repository_isolation.run,
    "sigterm": sigterm.run,
    "revocation": revocation.run,
    "redis-faults": redis_faults.run,
    "broken-paths": broken_paths.run,
    "elasticsearch-kills": elasticsearch_kills.run,
    "slow-clients": slow_clients.run,
    "tiny-chunks": tiny_chunks.run,
    "open-tails": open_tails.run,
    "overload": overload.run,
    "full-disk": full_disk.run,
    "shared-file": shared_file.run,
    "cut-file": cut_file.run,
    "schema-cases": schema_cases.run,
    "hostile-bodies": hostile_bodies.run,
    "generated-bodies": generated_bodies.run,
    "matrix-history": matrix_history.run,
    "no-new-indices": no_new_indices.run,
    "fair-ingest": fair_ingest.run,
    "wrong-clocks": wrong_clocks.run,
    "grown-lists": grown_lists.run,
    "largest-searches": largest_searches.run,
    "backups": backups.run,
    "redis-modes": redis_modes.run,
    "growth": growth.run,
    # This one comes last: it searches what the others left.
    "search-for-credentials": search_for_credentials.run,
}
