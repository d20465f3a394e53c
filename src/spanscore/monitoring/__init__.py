"""Monitors: when they look at the scores of a metric, what they make of them, and the alerts that
follow.
"""
