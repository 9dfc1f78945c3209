"""The indices: their layout, how they are created, split by month, upgraded and pruned."""
