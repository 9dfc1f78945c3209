"""The schemas of queries, request bodies and responses; the OpenAPI document is made of them."""
