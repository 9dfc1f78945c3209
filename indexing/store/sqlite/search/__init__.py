"""The test search: plans which indexes to read for a page, and reads it."""
