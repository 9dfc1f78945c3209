"""The dashboard: pages for people, made of the answers of the API by calls within the process."""
