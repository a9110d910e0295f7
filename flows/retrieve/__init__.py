"""Plan queries, search, standby, slices."""
