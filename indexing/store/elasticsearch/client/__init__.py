"""Talking to the cluster: connections, bulk requests, pages, and what its errors mean."""
