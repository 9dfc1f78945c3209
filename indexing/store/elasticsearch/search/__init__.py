"""The test search: the query that finds tests, and the pages that it is read in."""
