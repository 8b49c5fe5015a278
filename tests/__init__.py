"""The tests of Weave."""
