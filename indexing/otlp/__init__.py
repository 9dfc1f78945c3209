"""Converts OTLP spans of test results to executions. Pure: opens nothing and stores nothing."""
