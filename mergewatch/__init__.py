"""What programs import of mergewatch: the client. The service itself is in `service`."""
