"""One file a version, expand or contract, never both."""
