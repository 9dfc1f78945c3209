"""Request bodies: how many at a time, how large, and which process reads them."""
