"""The client of the cluster: connections, bulk requests, paging and error translation."""
