"""Entering a choice or a map: evaluated once, and what came out is kept (WEA-2, WEA-20).

A choice or map whose expression fails, a choice in which no case holds and that has no ``else``,
and a map over something that is no array or too long set the stop intent FAIL with the error.
"""

from pulseweave.core.weave.definition.model import ChoiceNode, MapNode
from pulseweave.core.weave.definition.template import ExpressionError, Scope
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.order import expression_error
from pulseweave.core.weave.place import Path, key_at
from pulseweave.core.weave.scope import ScopeState
from pulseweave.core.weave.states import ScopeKind, StopKind
from pulseweave.core.weave.values import OUTPUTS, PAGE_ITEMS, Outputs, items_name, scope_for
from pulseweave.kernel import canonical, limits


class _Unusable(Exception):
    """What came out is nothing to go on with."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message}


def enter_choice(draft: Draft, node: ChoiceNode, path: Path, within: str) -> None:
    scope = scope_for(draft, node.conditions, node.key, path)
    if scope is None:
        return
    try:
        taken = _choose(node, scope)
    except (ExpressionError, _Unusable) as error:
        _stop(draft, key_at(node.key, path), error)
        return
    draft.set_scope(_new(draft, node, path, within, taken=taken))


def _choose(node: ChoiceNode, scope: Scope) -> int:
    for place, condition in enumerate(node.conditions):
        value = condition.evaluate(scope)
        if not isinstance(value, bool):
            message = f"case {place} of {node.key} gave neither true nor false"
            raise _Unusable("EXPRESSION_ERROR", message)
        if value:
            return place
    if not node.has_else:
        message = f"no case of {node.key} holds, and it has no else"
        raise _Unusable("NO_CASE_HOLDS", message)
    return len(node.conditions)


def enter_map(draft: Draft, node: MapNode, path: Path, within: str) -> None:
    scope = scope_for(draft, [node.items], node.key, path)
    if scope is None:
        return
    key = key_at(node.key, path)
    try:
        items = _items(node, scope)
        pages = {
            items_name(key, first): items[first : first + PAGE_ITEMS]
            for first in range(0, len(items), PAGE_ITEMS)
        }
        texts = {name: canonical.encode_payload(page) for name, page in pages.items()}
    except (ExpressionError, _Unusable, canonical.InvalidJson) as error:
        _stop(draft, key, error)
        return
    draft.keep |= texts
    nothing_stored = Outputs(values={}, scopes={})
    draft.payloads = {**draft.payloads, **pages, OUTPUTS + key: nothing_stored}
    draft.set_scope(_new(draft, node, path, within, count=len(items)))


def _items(node: MapNode, scope: Scope) -> list[object]:
    items = node.items.evaluate(scope)
    if not isinstance(items, list):
        raise _Unusable("EXPRESSION_ERROR", f"the items of {node.key} are no array")
    if len(items) > limits.MAP_ITEMS_MAX:
        message = f"a map has at most {limits.MAP_ITEMS_MAX} items; {node.key} got {len(items)}"
        raise _Unusable("INPUT_CONTRACT", message)
    return items


def _new(
    draft: Draft,
    node: ChoiceNode | MapNode,
    path: Path,
    within: str,
    *,
    taken: int | None = None,
    count: int = 0,
) -> ScopeState:
    return ScopeState(
        id=draft.new_id(),
        namespace=draft.instance.namespace,
        instance_id=draft.instance.id,
        scope_key=key_at(node.key, path),
        node_key=node.key,
        within=within,
        kind=ScopeKind.CHOICE if isinstance(node, ChoiceNode) else ScopeKind.MAP,
        entered_at=draft.now,
        taken=taken,
        count=count,
    )


def _stop(
    draft: Draft, key: str, error: ExpressionError | _Unusable | canonical.InvalidJson
) -> None:
    told = error.error if isinstance(error, _Unusable) else canonical.parse(expression_error(error))
    draft.set_stop(StopKind.FAIL, {**told, "step": key})
