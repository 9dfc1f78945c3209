"""CODEOWNERS files: their rules, and the owners of a file. Pure."""
