"""Pure decisions: facts, a command and ``now`` in; new facts or a coded refusal out.

Nothing in this package performs I/O, reads a clock, makes an id on its own or logs. Facts are
frozen dataclasses; a decision answers with changed copies, and the shell (``txn``) writes the
difference.
"""
