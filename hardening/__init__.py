"""Attacks, faults and loads on a running service, each with its requirements."""
