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
