"""Decides by the variables of OpenTelemetry whether traces are turned on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def wants_traces(environment: Mapping[str, str]) -> bool:
    """Whether these variables name an exporter or an endpoint, and do not turn traces off."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporters:
        return exporters != "none"
    return any(environment.get(name, "").strip() for name in _ENDPOINTS)
