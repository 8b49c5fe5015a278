"""Every bound of the system, the unit last: schemas, columns, messages and docs use these numbers.

Characters are Unicode code points. Bytes of a payload are those of its canonical text, which is
what is stored: a character beyond ASCII takes six there, one beyond the basic plane twelve.
"""

REASON_CHARS_MAX = 1024
EVIDENCE_REF_CHARS_MAX = 512
IDEMPOTENCY_KEY_CHARS_MAX = 200
INSTANCE_KEY_CHARS_MAX = 200
NAME_CHARS_MAX = 128
APPLICATION_CHARS_MAX = 64
TOKEN_NAME_CHARS_MAX = 200
NAMESPACE_CHARS_MAX = 64
HANDLER_CHARS_MAX = 200
CODE_CHARS_MAX = 64
MESSAGE_CHARS_MAX = 4096
CONCURRENCY_KEY_CHARS_MAX = 200
WORKER_CHARS_MAX = 200

PAYLOAD_BYTES_MAX = 1024 * 1024
BODY_BYTES_MAX = 4 * 1024 * 1024
STORED_BYTES_MAX = 64 * 1024 * 1024  # a guard only: no text that was stored may fail to be read

# A payload may nest 64 levels: far more than people write, and every reader of it recurses safely,
# contracts, expressions and the console included. The body around it and what the system itself
# builds of accepted payloads have room for more, so that a payload at the bound never gets stuck on
# its way.
JSON_DEPTH_MAX = 64
BODY_DEPTH_MAX = JSON_DEPTH_MAX + 8
STORED_DEPTH_MAX = 128
# An answer shows payloads inside the tree of steps, which nests four levels for each level of the
# definition.
ANSWER_DEPTH_MAX = 192

# No setting of the interpreter makes conversions fail below this (sys.set_int_max_str_digits).
INTEGER_DIGITS_MAX = 640

UNSETTLED_TASKS_PER_INSTANCE_MAX = 1000  # PUL-16: a gate flip is bounded
MAP_CONCURRENCY_DEFAULT = 100
MAP_ITEMS_MAX = 10_000
ROUNDS_MAX = 100_000
SIGNALS_KEPT_MAX = 1000  # signals of one instance that no wait has taken
STEPS_PER_DEFINITION_MAX = 1000
DEFINITION_DEPTH_MAX = 16
ATTEMPTS_MAX = 100
PRIORITY_MAX = 100
DURATION_MS_MAX = 36_525 * 24 * 3600 * 1000  # 100 years

UNSTARTED_LEASE_MS = 10_000  # PUL-2: work handed to a caller that vanished comes back soon
LEASE_DEFAULT_MS = 30_000
LEASE_MS_MIN = 1_000
LEASE_MS_MAX = 24 * 3600 * 1000
CANCEL_GRACE_MS = 10_000  # renewal ends this long after cancel was asked by a timeout or deadline
UNSTARTED_DELAY_FIRST_MS = 1_000
UNSTARTED_DELAY_MS_MAX = 300_000
DEFERRED_ADVANCE_MS = 1_000  # PUL-12

TURN_ENTRIES_MAX = 1000
CLAIM_TASKS_MAX = 1000
PUMP_EVENTS_MAX = 200
WAKE_INSTANCES_MAX = 100
SWEEP_ROWS_MAX = 200
PRUNE_INSTANCES_MAX = 20
PRUNE_EVENTS_MAX = 1000
PROMOTE_KEYS_MAX = 200
PAGE_ROWS_DEFAULT = 50
PAGE_ROWS_MAX = 500
START_BATCH_MAX = 500
PARTITIONS_PER_NAMESPACE = 8
COMPILED_DEFINITIONS_MAX = 256

TRANSACTION_ATTEMPTS_MAX = 12
