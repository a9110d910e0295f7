"""The dataflows and the steps they are made of: what happens to an event."""
