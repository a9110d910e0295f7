"""Figures beside their baselines, taken in the same run."""
