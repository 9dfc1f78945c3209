"""The test search: query building and paging."""
