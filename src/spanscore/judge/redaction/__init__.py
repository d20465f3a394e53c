"""What is redacted: a file for each kind of place where secrets and personal data stand."""
