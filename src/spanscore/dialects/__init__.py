"""What a span says, dialect by dialect: one file each, span in, Step out."""
