"""What a CI job knows of itself, out of its environment: values in, values out, nothing is read."""
