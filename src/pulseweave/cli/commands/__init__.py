"""One module a subject; each command is a plain typed function."""
