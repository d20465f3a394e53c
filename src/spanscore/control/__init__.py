"""Evaluation of what is stored: which traces or sessions, by which metrics, and the runs that work
them off.
"""
