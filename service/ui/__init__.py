"""The dashboard: HTML pages made from responses of the API, which is called within the process."""
