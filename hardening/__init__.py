"""Attacks, faults and loads on a running service, each with what has to hold."""
