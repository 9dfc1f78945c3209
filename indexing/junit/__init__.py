"""JUnit XML as strangers write it, read into values: no store, no network, no clock in here."""
