"""Everything that crosses the border of the process."""
