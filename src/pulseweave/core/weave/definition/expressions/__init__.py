"""Expressions: CEL over ``input`` and ``steps.<key>.output``, without loss and without surprises
(WEA-2).

What CEL's library for Python does with a payload is not good enough for a system that never
guesses: it turns integers past 64 bits into floats, refuses lone surrogates, walks maps in random
order, counts bytes for ``size`` and copies lists at every turn of a comprehension, so that 16,000
items take ten seconds. So the work is divided. The library decides what is a valid expression and
computes on scalars: arithmetic, conversions, text predicates, time. Everything that only selects,
compares or arranges values (paths, lists, maps, conditions, comprehensions) is walked here on the
payload's own values, which therefore pass through exactly; every evaluation is deterministic and
has a budget.

Not part of the language here, refused at registration: unsigned integers and bytes (JSON has
neither), messages, comments, map keys that aren't strings, ``type``. A map is walked in the order
of its keys.
"""
