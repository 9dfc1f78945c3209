"""Reads untrusted JUnit XML into values. No store, no network, no clock."""
