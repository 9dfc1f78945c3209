"""Paging: cursors, the sort keys that they carry, and the links between pages."""
