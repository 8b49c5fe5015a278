"""The result stream: gapless within a partition, appended last of all (PUL-11)."""

from collections.abc import Sequence
from typing import Any

from pulseweave.core.pulse.task import ResultEvent
from pulseweave.kernel.check import invariant
from pulseweave.store import schema as t
from pulseweave.store.guard import Rank
from pulseweave.store.locks import lock_partitions
from pulseweave.store.setwise import SetUpdate
from pulseweave.store.tx import Tx

_HEADS = SetUpdate(
    t.result_partitions, keys=("id",), expect=("head_seq",), set=("head_seq",), rank=Rank.PARTITION
)


def append_events(tx: Tx, events: Sequence[ResultEvent]) -> list[tuple[int, int]]:
    """Lock the partitions, number the events behind their heads, move the heads.

    Answers (partition, seq) of each. No receipt, audit or journal may hold them (REC-7): they are
    known only when everything else has been written.
    """
    if not events:
        return []
    heads = lock_partitions(tx, {event.partition_id for event in events})
    tails = dict(heads)
    rows: list[dict[str, Any]] = []
    for event in events:
        invariant(event.partition_id in tails, "the partition exists", partition=event.partition_id)
        tails[event.partition_id] += 1
        rows.append(
            {
                "partition_id": event.partition_id,
                "seq": tails[event.partition_id],
                "namespace": event.namespace,
                "task_id": event.task_id,
                "task_revision": event.task_revision,
                "instance_id": event.instance_id,
                "activation_id": event.activation_id,
                "kind": event.kind.value,
                "code": event.code,
                "attempt": event.attempt,
                "late_report_id": event.late_report_id,
                "at": event.at,
            }
        )
    tx.insert_many(t.result_events, rows)
    tx.update_many(
        _HEADS,
        [
            {"id": partition, "expect_head_seq": heads[partition], "head_seq": tail}
            for partition, tail in sorted(tails.items())
        ],
    )
    for partition in tails:
        tx.hint("partition", partition)
    return [(row["partition_id"], row["seq"]) for row in rows]
