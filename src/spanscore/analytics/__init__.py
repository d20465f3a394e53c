"""Figures over stored scores, with intervals."""
