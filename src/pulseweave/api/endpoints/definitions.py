"""Definitions: register, read."""

from pulseweave.api.endpoint import PAGED, Call, Endpoint, Reply
from pulseweave.app.encode import definition_detail, definition_summary
from pulseweave.core.identity import Permission
from pulseweave.kernel import limits
from pulseweave.wire.base import Json, Wire
from pulseweave.wire.workflows import DefinitionDetail, DefinitionPage, DefinitionSummary


class DefinitionDocument(Wire, frozen=True, kw_only=True):
    """The body of a registration: the document itself stands in ``document``."""

    document: Json


def put(call: Call) -> Reply:
    name = call.name("name", chars_max=limits.NAME_CHARS_MAX)
    registered = call.app.workflows.define(
        call.principal, name, call.whole("version"), call.body.document
    )
    summary = definition_summary(registered.definition, created=registered.created)
    return Reply(summary, 201 if registered.created else 200)


def listing(call: Call) -> Reply:
    page = call.app.workflows.definitions(call.principal, cursor=call.cursor, limit=call.limit)
    return Reply(
        DefinitionPage(items=[definition_summary(d) for d in page.items], cursor=page.cursor)
    )


def get(call: Call) -> Reply:
    name = call.name("name", chars_max=limits.NAME_CHARS_MAX)
    found = call.app.workflows.definition(call.principal, name, call.whole("version"))
    return Reply(definition_detail(found))


ENDPOINTS = (
    Endpoint(
        method="PUT",
        path="/definitions/{name}/versions/{version}",
        summary="Register a definition; the same content again is the same (WEA-1)",
        permission=Permission.WORKFLOWS_DEFINE,
        handler=put,
        body=DefinitionDocument,
        answer=DefinitionSummary,
        statuses=(200, 201),
        codes=("DEFINITION_INVALID", "DEFINITION_CONFLICT"),
    ),
    Endpoint(
        method="GET",
        path="/definitions",
        summary="Definitions by name, newest version first",
        permission=Permission.WORKFLOWS_READ,
        handler=listing,
        answer=DefinitionPage,
        query=PAGED,
    ),
    Endpoint(
        method="GET",
        path="/definitions/{name}/versions/{version}",
        summary="One definition with its document",
        permission=Permission.WORKFLOWS_READ,
        handler=get,
        answer=DefinitionDetail,
        codes=("DEFINITION_NOT_FOUND",),
    ),
)
