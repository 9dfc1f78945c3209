"""The test search: how a page is best read off the indexes, and the reading of it."""
