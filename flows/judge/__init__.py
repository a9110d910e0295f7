"""The judge contract, the guard, and the offline judge."""
