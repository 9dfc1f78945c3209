"""The backend for more than one machine: Elasticsearch 9, by its core features alone."""
