"""What `spanscore doctor` looks at, one file for each kind of thing that can be wrong."""
