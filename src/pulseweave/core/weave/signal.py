"""Signals: told from outside, kept until consumed, consumed once (WEA-10).

First in, first out per (name, correlation); of several waits the earlier armed one takes first. A
signal may come before its wait. For a poll it is an answer like any other: classified first.
"""

from collections.abc import Iterator
from dataclasses import replace

from pulseweave.core.weave.definition.mapping import Classification
from pulseweave.core.weave.definition.model import Definition, PollNode, SignalNode
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.leaf import Leaf, OutputRef
from pulseweave.core.weave.poll import collect_answer
from pulseweave.core.weave.states import LeafState, OutputSource, ReviewCause, WaitKind
from pulseweave.core.weave.values import SIGNAL, SIGNALS, has
from pulseweave.core.weave.wait import KeptSignal, Wait
from pulseweave.kernel.errors import Rejected, reject


def refuse_payload(definition: Definition, name: str, value: object) -> Rejected | None:
    """A signal that no step of the definition knows, or whose payload meets no contract of that
    name, is refused at the door.
    """
    waiting = [node for known, node in _waiting(definition) if known == name]
    if not waiting:
        names = sorted(signal_names(definition))
        return reject(
            "CONTRACT_VIOLATION",
            f"no step of {definition.name} version {definition.version} waits for a signal {name}",
            rule="WEA-10",
            pointer="/name",
            signals=names,
        )
    problems = [
        node.output_contract.check(value)
        if isinstance(node, SignalNode) and node.output_contract is not None
        else []  # a poll's mapping says what its final signal means
        for node in waiting
    ]
    if not all(problems):
        return None
    return reject(
        "CONTRACT_VIOLATION",
        f"the payload meets no contract of a signal {name}",
        rule="WEA-10",
        problems=[
            {"pointer": f"/payload{p.pointer}", "message": p.message}
            for found in problems
            for p in found
        ],
    )


def deliver(draft: Draft, signal: KeptSignal, value: object) -> bool:
    """Give an accepted signal to the wait that it is for; whether one took it."""
    for wait in draft.armed():
        if _matches(wait, signal):
            _take(draft, wait, signal, value)
            return True
    return False


def take_kept(draft: Draft, wait: Wait) -> None:
    """A new wait takes the oldest matching signal that is kept, in the transaction that arms it
    (WEA-17). A poll goes on to the next while what it takes is not final.
    """
    name = SIGNALS + (wait.name or "")
    if not has(draft, [name]):
        return
    kept = draft.payloads[name]
    for signal in kept if isinstance(kept, tuple) else ():
        if not _matches(wait, signal) or signal.id in draft.taken_signals():
            continue
        if not has(draft, [SIGNAL + signal.id]):
            return
        again = _take(draft, wait, signal, draft.payloads[SIGNAL + signal.id])
        if again is None:
            return
        wait = again


def _matches(wait: Wait, signal: KeptSignal) -> bool:
    return (
        wait.kind is WaitKind.SIGNAL
        and wait.armed
        and wait.name == signal.name
        and wait.correlation == signal.correlation
        and (wait.deadline_at is None or signal.accepted_at < wait.deadline_at)
    )


def _take(draft: Draft, wait: Wait, signal: KeptSignal, value: object) -> Wait | None:
    """Consume it. A poll for which it isn't final waits on, with the next generation."""
    draft.take_signal(wait, signal.id)
    leaf = draft.leaves[wait.step_key]
    output = OutputRef(source=OutputSource.SIGNAL, id=signal.id, digest=signal.digest)
    node = draft.definition.leaves[leaf.node_key]
    if isinstance(node, PollNode):
        return _answer_poll(draft, wait, leaf, node, output=output, value=value)
    if node.output_contract is not None and node.output_contract.check(value):
        draft.review(leaf, ReviewCause.OUTPUT_CONTRACT)
        return None
    draft.set_leaf(replace(leaf, state=LeafState.SUCCEEDED, output=output, settled_at=draft.now))
    draft.payloads = {**draft.payloads, leaf.step_key: value}
    return None


def _answer_poll(
    draft: Draft, wait: Wait, leaf: Leaf, node: PollNode, *, output: OutputRef, value: object
) -> Wait | None:
    if node.mapping.classify(value) is Classification.PENDING:
        return draft.arm(
            leaf,
            WaitKind.SIGNAL,
            generation=wait.generation + 1,
            name=wait.name,
            correlation=wait.correlation,
            deadline_at=wait.deadline_at,
        )
    asking = leaf.task_id is not None and _under_way(draft, leaf)
    collect_answer(draft, leaf, value, output=output, answered_at=draft.now)
    settled = draft.leaves[leaf.step_key].state in (LeafState.SUCCEEDED, LeafState.FAILED)
    if asking and settled and leaf.task_id is not None:
        supersede_query(draft, leaf.task_id)
    return None


def _under_way(draft: Draft, leaf: Leaf) -> bool:
    """Whether the poll's query is not settled yet, as far as the inbox has told."""
    return leaf.task_state is None and not any(
        wait.kind is WaitKind.ROUND for wait in draft.armed_of(leaf)
    )


def supersede_query(draft: Draft, task_id: str) -> None:
    """A signal was first: the query is cancelled if it has not started, and waited for (WEA-15)."""
    draft.cancelled.add(task_id)
    draft.instance = replace(draft.instance, superseded=draft.instance.superseded + 1)


def signal_names(definition: Definition) -> frozenset[str]:
    """Names of the signals that some step of the definition waits for."""
    return frozenset(name for name, _ in _waiting(definition))


def _waiting(definition: Definition) -> Iterator[tuple[str, SignalNode | PollNode]]:
    """Names of signals with the steps that wait for them."""
    for node in definition.leaves.values():
        if isinstance(node, SignalNode):
            yield node.name, node
        elif isinstance(node, PollNode) and node.final_signal is not None:
            yield node.final_signal.name, node
