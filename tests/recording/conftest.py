"""Keeps pytest from importing what is no test: the harness, and scripts that need their framework
installed.
"""

collect_ignore_glob = ["frameworks/*", "protocols/*", "[!t]*.py"]
