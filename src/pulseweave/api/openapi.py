"""The OpenAPI 3.1 document, made from the table and the message types."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from pulseweave.api.endpoint import WHOLE_MAX, Endpoint
from pulseweave.api.table import PREFIX, TABLE
from pulseweave.kernel.codes import CODES
from pulseweave.wire.admin import Problem

_PARAMETER = re.compile(r"\{(\w+)\}")
_ALWAYS = ("UNAUTHENTICATED", "INVALID_COMMAND", "DATABASE_UNAVAILABLE")


def document(version: str) -> dict[str, Any]:
    types: list[type[msgspec.Struct]] = [Problem]
    for endpoint in TABLE:
        types += [kind for kind in (endpoint.body, endpoint.answer) if kind is not None]
    schemas, components = msgspec.json.schema_components(
        dict.fromkeys(types), ref_template="#/components/schemas/{name}"
    )
    refs = dict(zip(dict.fromkeys(types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in TABLE:
        operations = paths.setdefault(PREFIX + endpoint.path, {})
        operations[endpoint.method.lower()] = _operation(endpoint, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Weave",
            "version": version,
            "description": "Durable workflows that never guess what an external call did.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint, refs: dict[Any, Any]) -> dict[str, Any]:
    answers: dict[str, Any] = {
        str(status): {
            "description": endpoint.summary,
            "content": {"application/json": {"schema": refs[endpoint.answer]}},
        }
        for status in endpoint.statuses
    }
    for status, codes in _refusals(endpoint):
        answers[str(status)] = {
            "description": ", ".join(codes),
            "content": {"application/problem+json": {"schema": refs[Problem]}},
        }
    operation: dict[str, Any] = {
        "operationId": _operation_id(endpoint),
        "summary": endpoint.summary,
        "parameters": list(_parameters(endpoint)),
        "responses": answers,
    }
    if endpoint.permission is not None:
        operation["description"] = f"Needs the permission `{endpoint.permission.value}`."
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": refs[endpoint.body]}},
        }
    return operation


def _operation_id(endpoint: Endpoint) -> str:
    words = re.findall(r"\w+", endpoint.path)
    return "_".join([endpoint.method.lower(), *words]).replace("-", "_")


def codes_of(endpoint: Endpoint) -> list[str]:
    """Every code that the endpoint may answer, the common ones included."""
    codes = [*_ALWAYS, *endpoint.codes]
    if endpoint.permission is not None:
        codes.append("PERMISSION_DENIED")
    if endpoint.body is not None:
        codes += ["INVALID_JSON", "PAYLOAD_TOO_LARGE"]
    if endpoint.method != "GET":
        codes.append("OUTCOME_UNKNOWN")
    if endpoint.keyed:
        codes.append("IDEMPOTENCY_CONFLICT")
    if "INSTANCE_NOT_FOUND" in codes and "TASK_NOT_FOUND" not in codes:
        codes.append("INSTANCE_PRUNED")
    return list(dict.fromkeys(codes))


def _refusals(endpoint: Endpoint) -> Iterable[tuple[int, list[str]]]:
    by_status: dict[int, list[str]] = {}
    for code in codes_of(endpoint):
        by_status.setdefault(CODES[code].status, []).append(code)
    return sorted(by_status.items())


def _parameters(endpoint: Endpoint) -> Iterable[dict[str, Any]]:
    for name in _PARAMETER.findall(endpoint.path):
        kind: dict[str, Any] = {"type": "string", "minLength": 1}
        if name == "version":
            kind = {"type": "integer", "minimum": 1, "maximum": WHOLE_MAX}
        yield {"name": name, "in": "path", "required": True, "schema": kind}
    for name, parameter in endpoint.query.items():
        yield {
            "name": name,
            "in": "query",
            "required": parameter.required,
            "description": parameter.meaning,
            "schema": dict(parameter.schema),
        }
    if endpoint.keyed:
        yield {
            "name": "Idempotency-Key",
            "in": "header",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": 200},
        }
