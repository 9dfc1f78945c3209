"""The handlers, one module for each resource: parse, read, shape, link."""
