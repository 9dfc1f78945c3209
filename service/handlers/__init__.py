"""The handlers, a module for each resource: parse, ask, shape, link."""
