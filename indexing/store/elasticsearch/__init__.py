"""The backend for several machines: Elasticsearch 9, with its core features only."""
