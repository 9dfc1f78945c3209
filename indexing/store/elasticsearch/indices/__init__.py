"""The indices: layout, templates, creation, monthly slices, upgrades and retention."""
