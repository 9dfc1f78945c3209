"""Loads events and reports into a store, with dead letters for refused input."""
