"""Figures over the scores in a store, each with its n and an interval: summary, trend, distribution
and comparison.
"""
