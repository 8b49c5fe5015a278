"""Permissions and queues: denied unless given, and none implies another (REC-1)."""

from itertools import product

import pytest

from pulseweave.core.identity import Permission, Principal


def principal(*permissions: Permission, queues: tuple[str, ...] | None = None) -> Principal:
    """Without queues named it may use every one."""
    return Principal(
        credential_id="credential-1",
        namespace="acme",
        application="shop",
        actor="someone",
        permissions=frozenset(permissions),
        all_queues=queues is None,
        queues=frozenset(queues or ()),
        expires_at=None,
    )


@pytest.mark.rule("REC-1")
@pytest.mark.parametrize(("given", "needed"), list(product(Permission, Permission)))
def test_no_permission_implies_another(given: Permission, needed: Permission) -> None:
    refusal = principal(given).refuse_permission(needed)
    if given is needed:
        assert refusal is None
        return
    assert refusal is not None
    assert (refusal.code, refusal.detail["needed"]) == ("PERMISSION_DENIED", needed.value)


@pytest.mark.rule("REC-1")
@pytest.mark.parametrize(
    ("queues", "missing"),
    [(None, []), (("a", "b"), []), (("a",), ["b"]), ((), ["a", "b"])],
)
def test_access_is_needed_to_every_queue(
    queues: tuple[str, ...] | None, missing: list[str]
) -> None:
    refusal = principal(queues=queues).refuse_queues(["b", "a"])
    if not missing:
        assert refusal is None
        return
    assert refusal is not None
    assert (refusal.code, refusal.detail["needed"]) == (
        "QUEUE_ACCESS_DENIED",
        {"queues": missing},
    )
