"""Derives the health of tests from executions, with pure rules: no store, no clock, no await."""
