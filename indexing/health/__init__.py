"""Derives the health of tests from executions: pure rules, with no store, clock or await."""
