"""Processes that read large bodies, so that nothing in a body holds up the serving process."""
