"""How pages are made: templates that escape all text, files as packaged, digests for a content security policy."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import re
from typing import TYPE_CHECKING

from trtprof.base.errors import TrtprofError
from trtprof.base.text_file import visible

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup


def environment() -> jinja2.Environment:
    """Templates of this package. Text is escaped, and what it hides or turns is made visible."""
    import jinja2
    from markupsafe import Markup

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("trtprof.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Escaping leaves control and bidirectional characters alone: those are made visible here.
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    made.filters["sentence"] = sentence
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return made


_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z](?:[\w.=:,/-]{0,30}\w)?(?![\w-])")
"""An option of a command line with its value, as far as a narrow page has room for it in one piece."""


def sentence(text: str) -> Markup:
    """A sentence as HTML in which no line ends inside an option of a command line: browsers break behind ``--``."""
    from markupsafe import Markup, escape

    shown, parts, end = visible(text), [], 0
    for found in _OPTION.finditer(shown):
        parts += [escape(shown[end : found.start()]), Markup('<span class="nw">{}</span>').format(found[0])]
        end = found.end()
    return Markup("").join([*parts, escape(shown[end:])])


def asset(name: str) -> str:
    """A file of a page as packaged."""
    try:
        return importlib.resources.files("trtprof.report").joinpath("templates", name).read_text("utf-8")
    except OSError as error:
        raise TrtprofError(
            f"the installation lacks the page file {name!r}", why=str(error), fix="reinstall trtprof"
        ) from error


def digest(text: str) -> str:
    """The source expression that a content security policy allows ``text`` by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
