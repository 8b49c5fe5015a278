"""Durations and instants as people write them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulseweave.kernel import duration, limits
from pulseweave.kernel.duration import InvalidDuration
from pulseweave.kernel.instant import format_at, parse_at

DAY_MS = 86_400_000
YEAR_MS = 31_557_600_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1ms", 1),
        ("250ms", 250),
        ("30s", 30_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("7d", 7 * DAY_MS),
        ("1h30m", 5_400_000),
        ("1d2h3m4s5ms", 93_784_005),
        ("90m", 5_400_000),
        ("0h5m", 300_000),
        ("007s", 7_000),
        ("0000000000000000000000000001s", 1_000),
        ("2147483648ms", 2**31),
        ("25d", 25 * DAY_MS),
        ("7305d", 7305 * DAY_MS),
        ("36525d", 36_525 * DAY_MS),
        (f"{limits.DURATION_MS_MAX}ms", limits.DURATION_MS_MAX),
    ],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert duration.parse(text) == expected_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "s",
        "5 s",
        " 5s",
        "5s\n",
        "-5s",
        "+5s",
        "5.5s",
        "1e3s",
        "5S",
        "5min",
        "5us",
        "5w",
        "1y",
        "NaN",
        "PT5S",
        "٣s",
        5,
        0,
        -1,
        5.5,
        float("nan"),
        True,
        None,
        ["5s"],
        "x" * 10_000,
        {"a": "x" * 10_000},
    ],
)
def test_what_is_no_duration_hears_the_right_form(text: object) -> None:
    with pytest.raises(InvalidDuration, match='written like "250ms", "30s", "5m"') as caught:
        duration.parse(text)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("text", ["5m1h", "1s1s", "5s5m", "1ms1s", "1h1h"])
def test_units_descend_and_occur_once(text: str) -> None:
    with pytest.raises(InvalidDuration, match="repeats a unit or has a larger one behind"):
        duration.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "36526d",
        "36525d1ms",
        f"{limits.DURATION_MS_MAX + 1}ms",
        "1000000000000s",
        "9" * 16 + "d",
        "9" * 10_000 + "ms",
        "36524d" + "9" * 13 + "ms",
    ],
)
def test_too_long_is_refused_and_never_wrapped(text: str) -> None:
    with pytest.raises(InvalidDuration, match="longer than 100 years") as caught:
        duration.parse(text)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("text", ["0s", "0ms", "0d0h", "00m"])
def test_no_time_only_where_it_is_allowed(text: str) -> None:
    with pytest.raises(InvalidDuration, match="no time at all"):
        duration.parse(text)
    assert duration.parse(text, zero=True) == 0


@given(st.integers(0, limits.DURATION_MS_MAX))
def test_a_duration_is_read_back(duration_ms: int) -> None:
    assert duration.parse(duration.format_ms(duration_ms), zero=True) == duration_ms


def test_how_durations_are_written() -> None:
    assert duration.format_ms(0) == "0s"
    assert duration.format_ms(5_400_000) == "1h30m"
    assert duration.format_ms(90_061_001) == "1d1h1m1s1ms"
    assert duration.format_ms(100 * YEAR_MS) == "36525d"


# --- instants -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1_796_115_600_000_000, "2026-12-01T09:00:00.000000Z"),
        (2**31 * 1_000_000, "2038-01-19T03:14:08.000000Z"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_instants(instant: int, text: str) -> None:
    assert format_at(instant) == text
    assert parse_at(text) == instant


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_an_instant_is_read_back_exactly(instant: int) -> None:
    assert parse_at(format_at(instant)) == instant


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_is_that_of_the_calendar(moment: datetime) -> None:
    text = moment.strftime("%m-%dT%H:%M:%S.%fZ")
    assert format_at(parse_at(f"{moment.year:04}-{text}")) == f"{moment.year:04}-{text}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-12-01T09:00:00Z",
        "2026-12-01T09:00:00.000Z",
        "2026-12-01T09:00:00.000000+00:00",
        "2026-12-01 09:00:00.000000Z",
        "2026-12-01T09:00:00.000000z",
        "2026-12-01T09:00:00.000000Z\n",
        "2026-13-01T09:00:00.000000Z",
        "2026-02-30T09:00:00.000000Z",
        "2026-12-01T24:00:01.000000Z",
        "2026-12-01T23:59:60.000000Z",
        "٢026-12-01T09:00:00.000000Z",
        "x" * 10_000,
    ],
)
def test_other_texts_are_no_instants(text: str) -> None:
    with pytest.raises(ValueError, match="is no instant like 2026-12-01T09:00:00") as caught:
        parse_at(text)
    assert len(str(caught.value)) < 200
