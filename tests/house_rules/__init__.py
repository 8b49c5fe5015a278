"""The rules of the house that no linter knows, as checks that say what to write instead."""
