"""The package that other programs import: the API client. The service itself is in `service`."""
