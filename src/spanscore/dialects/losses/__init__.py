"""What was lost before a span came: values that an SDK cut or dropped, and the facts that rest on
them.
"""
