"""What registries know, as pages and tables of the manual."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


@functools.cache
def pages() -> Mapping[str, Callable[[], str]]:
    """Topic -> what writes its page."""
    from trtprof.diagnose import RULES
    from trtprof.hardware.gpus import specs

    return {
        **{f"rules/{code}": functools.partial(_rule, code) for code in sorted(RULES.keys())},
        **{f"ops/{name}": functools.partial(_op, key) for name, key in _ops().items()},
        **{f"gpus/{slug}": functools.partial(_gpu, slug) for slug in sorted(specs())},
    }


def _rule(code: str) -> str:
    from trtprof.diagnose import config, listing
    from trtprof.report import render

    return _headed(render(listing.rules(config.Config(), code), "markdown", view="sheet"))


def _gpu(slug: str) -> str:
    from trtprof.flows.gpus import Filters
    from trtprof.flows.gpus import gpus as listed
    from trtprof.report import render

    return _headed(render(listed([slug], Filters()), "markdown", view="sheet"))


def _headed(text: str) -> str:
    """A document whose first heading is that of a page."""
    lines = text.split("\n")
    top = len(lines[0]) - len(lines[0].lstrip("#")) - 1
    return "\n".join(line[top:] if line.startswith("#" * (top + 1)) else line for line in lines)


@functools.cache
def _ops() -> Mapping[str, tuple[str, str]]:
    """Name of an op's page -> domain and op type."""
    from trtprof.cost import COSTS

    return {f"{domain}.{name}" if domain else name: (domain, name) for domain, name in sorted(COSTS.keys())}


def _op(key: tuple[str, str]) -> str:
    from trtprof.base.registry import NEWEST
    from trtprof.cost import COSTS

    domain, name = key
    text = (
        f"# {name}\n\nDomain `{domain or 'ai.onnx'}`. What it costs, by `trtprof inspect` and all that build on it.\n"
    )
    for first, last, function in COSTS.entries(key):
        span = (
            f"opset {first} to {last}" if last != NEWEST else f"opset {first} and later" if first > 1 else "every opset"
        )
        place = inspect.unwrap(function).__module__.replace(".", "/") + ".py"
        meaning = inspect.cleandoc(function.__doc__ or "")
        text += f"\n## Cost, {span}\n\n{meaning}\n\n`{place}`, `{function.__name__}`.\n"
    return text + "\nWhat counts as a FLOP and as a byte: [the work model](../work-model.md).\n"


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(each.replace("|", "\\|") for each in line) + " |\n" for line in lines)


def _grouped(links: Iterable[tuple[str, str]]) -> str:
    """A paragraph a group, in their order by name: how many links it has, and which."""
    named: dict[str, list[str]] = {}
    for group, link in links:
        named.setdefault(group, []).append(link)
    return "".join(f"**{group}** ({len(each)}): {', '.join(each)}\n\n" for group, each in sorted(named.items()))


def rules() -> str:
    """The rules, by code."""
    from trtprof.diagnose import config, listing

    found = listing.rules(config.Config(), None).rules
    return _table(
        ("rule", "title", "what it finds"),
        ((f"[{each.code}](rules/{each.code}.md)", each.title, each.summary) for each in found),
    )


def ops() -> str:
    """Ops with a cost function, by domain."""
    return _grouped((key[0] or "ai.onnx", f"[{key[1]}](ops/{name}.md)") for name, key in _ops().items())


def gpus() -> str:
    """The GPUs with a datasheet, by architecture."""
    from trtprof.hardware.gpus import specs

    return _grouped((spec.architecture, f"[{spec.name}](gpus/{slug}.md)") for slug, spec in sorted(specs().items()))


def glossary() -> str:
    """The words of reports."""
    from trtprof.report.terms import TERMS

    return "".join(
        f"### {term.title}\n\n{term.text}" + (f" *Also: {', '.join(term.also)}.*" if term.also else "") + "\n\n"
        for term in TERMS.values()
    )


def trtexec() -> str:
    """Every flag of trtexec, and what is done with it."""
    from trtprof.cli.trtexec import FLAGS

    def said(how: Any) -> str:
        return f"{how.kind}" + (f": {how.why}" if how.why else "") + (f"; {how.fix}" if how.fix else "")

    return _table(
        ("flag", "TensorRT", "`trtprof run`", "`trtprof build`"),
        (
            (" ".join(f"`{name}`" for name in of.names), f"{of.since} to {of.until}", said(of.run), said(of.build))
            for of in FLAGS
        ),
    )


def commands() -> str:
    """Every command with its options, as ``--help`` has them."""
    return "".join(f"## trtprof {name}\n\n```text\n{text}\n```\n\n" for name, text in helps())


def helps() -> Iterator[tuple[str, str]]:
    """Name of each command, ``fleet plan``, and its help at 80 columns."""
    import typer.main

    from trtprof.cli import app, load_commands

    load_commands()
    yield from _helps(typer.main.get_command(app), "", None)


def _helps(group: Any, before: str, parent: Any) -> Iterator[tuple[str, str]]:
    import typer

    context = typer.Context(group, info_name=before.strip() or "trtprof", parent=parent, terminal_width=80)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        inner = typer.Context(found, info_name=name, parent=context, terminal_width=80)
        yield f"{before}{name}", found.get_help(inner).rstrip()
        if hasattr(found, "list_commands"):
            yield from _helps(found, f"{before}{name} ", context)


TABLES: Mapping[str, Callable[[], str]] = {
    made.__name__: made for made in (rules, ops, gpus, glossary, trtexec, commands)
}
