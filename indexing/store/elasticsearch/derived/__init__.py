"""Data derived from executions: dirty markers, and the refresh that recomputes tests."""
