from __future__ import annotations

from trtprof.base.progress import Count, Line, heard


def test_a_line_travels_with_what_is_left() -> None:
    line = heard(Line("3 of 10 inferences", 7.25).wire())
    assert isinstance(line, Line)
    assert (line, line.left_s) == ("3 of 10 inferences", 7.25)
    assert Line("late", -3.0).left_s == 0.0
    for plain in ("reading the profile", "a\tleft=soon", ""):
        assert heard(plain) == plain
        assert not isinstance(heard(plain), Line)


def test_a_count_tells_once_a_second_how_many_and_how_long() -> None:
    now, said = 0.0, list[str]()
    count = Count(said.append, "inferences", lambda: now)
    for done in range(1, 11):
        now = 0.4 * done
        count.tell(done, 10)
    assert said == ["3 of 10 inferences", "6 of 10 inferences", "9 of 10 inferences"]
    assert [round(line.left_s, 3) for line in said if isinstance(line, Line)] == [2.8, 1.6, 0.4]


def test_where_time_decides_what_is_left_goes_by_it() -> None:
    now, said = 0.0, list[str]()
    count = Count(said.append, "inferences", lambda: now)
    now = 2.0
    # Two of ten took two seconds, and it is to go on until the fifth at least: the eight others take longer.
    count.tell(2, 10, end=5.0)
    now = 4.0
    # Ten are done: only the time is not over.
    count.tell(1000, 10, end=5.0)
    assert said == ["2 of 10 inferences", "1,000 inferences"]
    assert [line.left_s for line in said if isinstance(line, Line)] == [8.0, 1.0]
