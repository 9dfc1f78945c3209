"""Turns on the traces of a process as the variables of OpenTelemetry configure them.

https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ lists them. The
SDK reads most of them itself.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points, version
from typing import Final

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.semconv.attributes.service_attributes import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    SERVICE_VERSION,
)

from indexing.errors import MergewatchError
from service.tracing.tracing import Tracing

# The entry point group in which packages register exporters.
_GROUP: Final = "opentelemetry_traces_exporter"
_EXPORTERS: Final = "OTEL_TRACES_EXPORTER"
# The first one that is set counts.
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_OTLP: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
_DEFAULT_PROTOCOL: Final = "http/protobuf"
_PROPAGATORS: Final = "OTEL_PROPAGATORS"
_PARENTS: Final = "tracecontext"
# Baggage is accepted and never read.
_KNOWN_PROPAGATORS: Final = frozenset((_PARENTS, "baggage", "none"))
_NAME: Final = "mergewatch"

_log = logging.getLogger(__name__)


class TracesError(MergewatchError):
    """Traces cannot be exported as configured; the text names the variable."""


def check_exporters() -> None:
    """Check that the exporters in the variables are installed.

    Raises:
        TracesError: one of them is not installed.
    """
    tuple(_find_exporters())


def open_tracing() -> Tracing:
    """Start to export traces. Each of several processes does so itself, after it was forked.

    Raises:
        TracesError: the value of a variable is wrong.
    """
    for name, value in tuple(os.environ.items()):
        # By the specification, an empty variable counts as unset. Parts of the SDK differ.
        if name.startswith("OTEL_") and not value:
            del os.environ[name]
    try:
        provider = TracerProvider(resource=_make_resource(), shutdown_on_exit=False)
        for found in _find_exporters():
            provider.add_span_processor(BatchSpanProcessor(found.load()()))
    except (ImportError, ValueError) as error:
        raise TracesError(f"the OTEL_* variables are wrong: {error}") from error
    return Tracing(provider, takes_parents=_PARENTS in _read_propagators())


def _read_propagators() -> frozenset[str]:
    """Return the known propagators in the variable; by the specification, warn of all others."""
    given = os.environ.get(_PROPAGATORS, _PARENTS).split(",")
    names = frozenset(filter(None, (name.strip().lower() for name in given)))
    if unknown := names - _KNOWN_PROPAGATORS:
        _log.warning(
            "unknown propagators are ignored",
            extra={"variable": _PROPAGATORS, "names": sorted(unknown)},
        )
    return names & _KNOWN_PROPAGATORS


def _find_exporters() -> Iterator[EntryPoint]:
    for given in (os.environ.get(_EXPORTERS) or "otlp").split(","):
        variable, name = _EXPORTERS, given.strip()
        if name == "otlp":
            variable, name = _find_otlp()
        found = tuple(entry_points(group=_GROUP, name=name))
        if not found:
            raise TracesError(f"{variable}: no exporter {name!r} is installed")
        yield found[0]


def _find_otlp() -> tuple[str, str]:
    """Return the variable that chooses the protocol of OTLP, and the exporter for that."""
    for variable in _PROTOCOLS:
        if protocol := os.environ.get(variable):
            return variable, _OTLP.get(protocol, f"otlp by {protocol}")
    return _EXPORTERS, _OTLP[_DEFAULT_PROTOCOL]


def _make_resource() -> Resource:
    """Return the attributes of this process in its spans; the operator's own values win."""
    own = {
        SERVICE_NAME: _NAME,
        SERVICE_VERSION: version(_NAME),
        SERVICE_INSTANCE_ID: str(uuid.uuid4()),
    }
    return Resource.create({**own, **OTELResourceDetector().detect().attributes})
