"""Traces by OpenTelemetry. Imported only where its variables turn them on."""
