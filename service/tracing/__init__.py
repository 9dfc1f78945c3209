"""Traces with OpenTelemetry. Imported only if its variables turn them on."""
