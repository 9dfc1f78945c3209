"""Test results as OpenTelemetry spans: messages to values and back, with no I/O in here."""
