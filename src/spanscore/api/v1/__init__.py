"""The control service in Python: generated from proto/ by `make proto`, never edited."""
