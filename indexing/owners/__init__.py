"""Reads CODEOWNERS files and finds the owners of a file. Pure."""
