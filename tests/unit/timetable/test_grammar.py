"""What is a cron expression here, and what is refused with which words."""

import pytest

from tasktick.errors import Refused
from tasktick.timetable.cron import parse
from tasktick.timetable.grammar import MACROS, TEXT_CHARS_MAX

ACCEPTED = [
    "* * * * *",
    "*/15 9-17 * * MON-FRI",
    "0 0 1 jan,Feb,DEC sun",
    "0 0 * * SAT-SUN",
    "0 0 * * FRI-SUN",
    "0 0 * * 5-7",
    "0 0 * * 7",
    "0-59/7 0-23/5 1-31/2 1-12/3 0-7/2",
    "1,2,3-5,10-20/2,*/30 * * * *",
    "05 09 * * *",
    "0 0 L * *",
    "0 0 LW * *",
    "0 0 l,15w,1 * *",
    "0 0 W15 * *",
    "0 0 * * 5#2",
    "0 0 * * fri#2,MON#5",
    "0 0 * * 5L",
    "0 0 * * L5",
    "0 0 * * FRIL",
    "0 0 31 2 0",
    "0 0 29 2 *",
    "0 0 30 */2 *",
    "*/59 */23 */31 */12 */7",
    "30 0 9 * * *",
    "* * * * * *",
    "0-10/5,59 * * * * *",
    "  0   9  * * *  ",
    "0-0 0-0 1-1 1-1 *",
    *MACROS,
    "@Daily",
]

# (expression, what the refusal must speak of)
REFUSED = [
    ("", "five fields"),
    ("   ", "five fields"),
    ("* * * *", "this has 4"),
    ("* * * * * * *", "this has 7"),
    ("60 * * * *", "minute"),
    ("* 24 * * *", "hour"),
    ("* * 0 * *", "day-of-month"),
    ("* * 32 * *", "day-of-month"),
    ("* * * 0 *", "month"),
    ("* * * 13 *", "month"),
    ("* * * * 8", "day-of-week"),
    ("60 * * * * *", "second"),
    ("-1 * * * *", "minute"),
    ("5- * * * *", "minute"),
    ("1-2-3 * * * *", "minute"),
    ("5-4 * * * *", "wrap"),
    ("0 22-2 * * *", "wrap"),
    ("0 0 * * FRI-MON", "wrap"),
    ("0 0 * DEC-FEB *", "wrap"),
    ("0 0 * * 6-0", "wrap"),
    ("5/15 * * * *", "`5-59/15`"),
    ("59/15 * * * *", "59-59/15"),
    ("0 6/1 * * *", "`6-23/1`"),
    ("0 0 * * MON/2", "`1-6/2`"),
    ("*/60 * * * *", "step"),
    ("*/90 * * * *", "step"),
    ("0 */24 * * *", "step"),
    ("*/0 * * * *", "step"),
    ("*/x * * * *", "step"),
    ("*/ * * * *", "minute"),
    ("0-10/99 * * * *", "step"),
    (", * * * *", "nothing"),
    ("1,,2 * * * *", "nothing"),
    ("1, * * * *", "nothing"),
    ("** * * * *", "minute"),
    ("R * * * *", "minute"),
    ("R(0-5) * * * *", "minute"),
    ("H * * * *", "minute"),
    ("0 0 ? * *", "`?`"),
    ("0 0 * * ?", "`?`"),
    ("0 0 L-3 * *", "day-of-month"),
    ("0 0 * * L", "5L"),
    ("0 0 32W * *", "day-of-month"),
    ("0 0 1-5W * *", "day-of-month"),
    ("L * * * *", "minute"),
    ("0 0 * L *", "month"),
    ("0 0 * * 5#6", "1 to 5"),
    ("0 0 * * 5#0", "1 to 5"),
    ("0 0 * * 5#", "1 to 5"),
    ("0 0 * * 9#1", "day-of-week"),
    ("0 0 * * XYZ#1", "day-of-week"),
    ("0 0 * * 8L", "day-of-week"),
    ("0 0 * * MONDAY", "day-of-week"),
    ("0 0 * MAI *", "month"),
    ("JAN * * * *", "minute"),
    ("1.5 * * * *", "minute"),
    ("1_0 * * * *", "minute"),
    ("+1 * * * *", "minute"),
    ("@reboot", "reboot"),
    ("@every 5m", "every"),
    ("@fortnightly", "no such macro"),
    ("@daily 5", "no such macro"),
    ("TZ=Europe/Berlin 0 9 * * *", "timezone"),
    ("CRON_TZ=UTC 0 9 * * *", "timezone"),
    ("0 9 * * *\n", "control"),
    ("0\t9 * * *", "control"),
    ("0 9 * * *\x00", "control"),
    ("0 9 * * *\x7f", "control"),
    ("\uff10 9 * * *", "ASCII"),
    ("0 9 * * MON–FRI", "ASCII"),
    ("0 9 * * *\u00a0", "ASCII"),
    ("0 " * (TEXT_CHARS_MAX // 2 + 1), "characters"),
    ("9" * 200 + " * * * *", "minute"),
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert parse(text).next_local(0) is not None


@pytest.mark.parametrize(("text", "about"), REFUSED)
def test_refused_naming_the_field(text: str, about: str) -> None:
    with pytest.raises(Refused) as caught:
        parse(text)
    refused = caught.value
    assert refused.code == "validation_failed"
    assert [pointer for pointer, _ in refused.errors] == ["/cron"]
    assert about in refused.detail
    assert refused.detail.endswith(".")


@pytest.mark.parametrize(
    "text", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30W 2 *", "0 0 30,31 FEB */2", "0 0 0 31 4 *"]
)
def test_what_never_fires_has_a_code_of_its_own(text: str) -> None:
    with pytest.raises(Refused) as caught:
        parse(text)
    assert caught.value.code == "cron_never_fires"
    assert caught.value.errors[0][0] == "/cron"


def test_the_longest_expression_is_accepted() -> None:
    text = "0 0 * * *".rjust(TEXT_CHARS_MAX)
    assert parse(text).text == "0 0 * * *"
    with pytest.raises(Refused):
        parse(f" {text}")


def test_macros_are_their_five_fields() -> None:
    for macro, text in MACROS.items():
        assert parse(macro).text == text


def test_seconds_come_first_in_six_fields() -> None:
    cron = parse("30 5 9 * * *")
    assert cron.has_seconds
    assert (cron.seconds, cron.minutes, cron.hours) == (1 << 30, 1 << 5, 1 << 9)
    assert not parse("5 9 * * *").has_seconds
