"""The shapes of what comes in by query and goes out as JSON; the OpenAPI document reads them."""
