"""Recovery's transactions: one module an operation, and the one frame around them all (``run``)."""
