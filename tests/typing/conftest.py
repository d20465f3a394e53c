"""What a type checker reads, and nothing runs."""

collect_ignore = ["public_api.py"]
