"""The OpenAPI document is valid, has all that the table has and nothing else, and is kept to.

Requests made from it, right ones and wrong ones, find no fault: each answer is declared and has its
declared form (``ApiWorld.send`` looks at every one).
"""

import re
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator

from pulseweave import __version__
from pulseweave.api.endpoint import Endpoint
from pulseweave.api.openapi import codes_of, document
from pulseweave.kernel import canonical
from pulseweave.kernel.codes import CODES
from tests.api.happy import DISTINCT, HAPPY
from tests.api.values import TEXTS, Allowed, nearly
from tests.api.world import BY_KEY, NOBODY, ApiWorld, Asked

DOCUMENT = document(__version__)
COMPONENTS = DOCUMENT["components"]["schemas"]
ALLOWED = Allowed(COMPONENTS)
EXAMPLES = 10


def operation_of(key: str) -> dict[str, Any]:
    endpoint = BY_KEY[key]
    found: dict[str, Any] = DOCUMENT["paths"]["/v1" + endpoint.path][endpoint.method.lower()]
    return found


def test_the_document_is_valid_and_served_to_everybody(world: ApiWorld) -> None:
    assert list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors()) == []
    request = world.server.http.request("GET", "/v1/openapi.json")
    got = world.server.runner.run(request)
    assert got.status_code == 200
    assert canonical.parse(got.content) == DOCUMENT
    assert got.headers["content-type"] == "application/json"


def test_every_endpoint_is_in_it_and_no_other() -> None:
    told = {
        f"{method.upper()} {path.removeprefix('/v1')}"
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
    }
    assert told == BY_KEY.keys()
    names = [operation_of(key)["operationId"] for key in BY_KEY]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("key", BY_KEY)
def test_an_endpoint_is_told_whole(key: str) -> None:
    """Statuses, every code, permission, parameters and body."""
    endpoint, operation = BY_KEY[key], operation_of(key)
    refusals: dict[int, set[str]] = {}
    for code in codes_of(endpoint):
        refusals.setdefault(CODES[code].status, set()).add(code)
    answers = operation["responses"]
    assert {int(status) for status in answers} == {*endpoint.statuses, *refusals}
    for status, codes in refusals.items():
        assert set(answers[str(status)]["description"].split(", ")) == codes
        assert "application/problem+json" in answers[str(status)]["content"]
    if endpoint.permission is not None:
        assert f"`{endpoint.permission.value}`" in operation["description"]
    parameters = {(p["in"], p["name"]): p for p in operation["parameters"]}
    wanted = {("path", name) for name in re.findall(r"\{(\w+)\}", endpoint.path)}
    wanted |= {("query", name) for name in endpoint.query}
    wanted |= {("header", "Idempotency-Key")} if endpoint.keyed else set()
    assert parameters.keys() == wanted
    assert ("requestBody" in operation) == (endpoint.body is not None)


@pytest.mark.parametrize("key", BY_KEY)
def test_requests_and_answers_have_the_form_that_it_tells(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    operation = operation_of(key)
    if asked.body is not None:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert broken(schema, asked.body) == []
    answer = world.send(asked)
    schema = operation["responses"][str(answer.status)]["content"]["application/json"]["schema"]
    assert broken(schema, answer.body) == []
    refused = world.send(asked.but(token=NOBODY))
    schema = operation["responses"]["401"]["content"]["application/problem+json"]["schema"]
    assert broken(schema, refused.body) == []


def broken(schema: dict[str, Any], value: object) -> list[str]:
    """What a value breaks of a schema of the document."""
    whole = {**schema, "components": {"schemas": COMPONENTS}}
    return [str(error) for error in jsonschema_rs.Draft202012Validator(whole).iter_errors(value)]


# --- requests made from it ------------------------------------------------------------------------

#: What an address can carry between two slashes.
PARTS = TEXTS.map(lambda text: text.encode("utf-8", "replace").decode().replace("/", "")).filter(
    lambda text: text.strip(".") != ""
)
QUERY_TEXTS = TEXTS.map(lambda text: text.encode("utf-8", "replace").decode())


@st.composite
def requests(draw: st.DrawFn, endpoint: Endpoint, happy: Asked) -> Asked:
    """The request that succeeds, with any of its parts drawn anew."""
    plain, _, query = happy.path.partition("?")
    path = plain.removeprefix("/v1")
    if "{" in endpoint.path and draw(st.booleans()):
        path = re.sub(r"\{\w+\}", lambda _: quote(draw(PARTS), safe=""), endpoint.path)
    if draw(st.booleans()):
        query = "&".join(
            f"{name}={quote(draw(_query_value(parameter.schema)))}"
            for name, parameter in endpoint.query.items()
            if parameter.required or draw(st.booleans())
        )
    key = happy.key
    if endpoint.keyed:
        key = draw(st.just(key) | st.from_regex(r"[ -~]{0,8}", fullmatch=True) | st.none())
    body = happy.body
    if endpoint.body is not None and draw(st.integers(0, 3)):
        operation = DOCUMENT["paths"]["/v1" + endpoint.path][endpoint.method.lower()]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        right = ALLOWED.values(schema)
        body = draw(right | nearly(right) | nearly(st.just(happy.body)))
    if query:
        path = f"{path}?{query}"
    return happy.but(path=path, key=key, body=body)


def _query_value(schema: Any) -> st.SearchStrategy[str]:
    return ALLOWED.values(schema).map(_said) | QUERY_TEXTS


def _said(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode()


@pytest.mark.parametrize("key", DISTINCT)
def test_no_request_finds_a_fault(world: ApiWorld, key: str) -> None:
    happy = HAPPY[key](world)
    seen: set[str | None] = set()

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(asked=requests(BY_KEY[key], happy))
    def send(asked: Asked) -> None:
        seen.add(world.send(asked).code)

    send()
    assert None in seen, "the right ones among them were taken"
    endpoint = BY_KEY[key]
    if endpoint.body is not None or endpoint.query:
        assert len(seen) > 1, "and the wrong ones were not"
    assert world.findings() == []
