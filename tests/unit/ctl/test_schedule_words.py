"""Schedules in words, for tables."""

from tasktick.ctl import schedule_words


def test_a_list_of_rules_is_told_whole() -> None:
    rules = [{"cron": "0 9 1 * *"}, {"every": 7200}, {"rrule": "FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=17"}]
    said = schedule_words.when({"spec": rules, "timezone": "UTC"})
    assert "every 2 hours; and every month on the last day" in said
    assert "counted from" not in said


def test_catching_up_with_all_is_not_promised_where_overlap_leaves_the_rest_out() -> None:
    for overlap, told in (("skip", True), ("buffer_one", True), ("buffer_all", False), ("allow", False)):
        said = dict(schedule_words.in_full({"overlap": overlap, "catch_up": {"mode": "all", "max": 100}}, None))[
            "catch up"
        ]
        assert (f"but `overlap` {overlap} leaves out" in said) == told
