"""Spans of test results, as OTLP carries them, to executions; opens nothing and stores nothing."""
