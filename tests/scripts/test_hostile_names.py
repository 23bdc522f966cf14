"""The campaign of hostile names sees a name that left its place, and no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fakes.hostile import names


@pytest.mark.parametrize(
    ("look", "harmless", "wrong"),
    [
        (names.in_python, 'x = "INJECTED()"  # INJECTED()\ndim_INJECTED = 1', 'x = ""\nINJECTED()'),
        (names.in_python, '"""INJECTED"""', '"""x"""\nINJECTED()\n""""""'),
        (names.in_python, "x = 1", "def INJECTED: pass"),
        (names.in_c, "int a; // INJECTED()\n/* INJECTED */", "int a; // x\nINJECTED();"),
        (names.in_c, "// x\\\nINJECTED();", "/* x */ INJECTED(); /* */"),
        (names.in_c, 'char const* a = "\\" INJECTED()";', 'char const* a = ""; INJECTED(); "";'),
        (names.in_c, "// x ??/\nINJECTED();", "// x\rINJECTED();"),
        (names.in_page, "<p title='INJECTED()'>&lt;script>INJECTED()</p>", "<p onclick='INJECTED()'>"),
        (names.in_page, '<script type="application/json">"INJECTED"</script>', "<script>INJECTED()</script>"),
        (names.in_page, "<a href='#INJECTED'>x</a>", "<a href='javascript:INJECTED()'>x</a>"),
        (names.in_table, "a,'=INJECTED()\n", "a,=INJECTED()\n"),
        (names.in_markdown, "`<img src=x onerror=INJECTED()>`", "<img src=x onerror=INJECTED()>"),
        (names.in_markdown, "\\[x\\](javascript:INJECTED())", "[x](javascript:INJECTED())"),
        (names.in_markdown, "```\n# INJECTED\n```", "# INJECTED"),
    ],
)
def test_what_is_code_is_told_from_what_is_text(look: Callable[[str], list[str]], harmless: str, wrong: str) -> None:
    assert look(harmless) == []
    assert look(wrong)
