"""What executions say of a test's health: rules over values, with no store, clock or await here."""
