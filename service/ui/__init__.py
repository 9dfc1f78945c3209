"""The dashboard: HTML pages made from API responses, which are got by calls within the process."""
