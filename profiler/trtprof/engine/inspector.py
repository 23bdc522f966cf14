"""Layer information of TensorRT engines, from any file that people have of it.

What TensorRT's engine inspector writes differs from version to version, and comes as JSON
(``trtexec --exportLayerInfo``), as JSON objects one behind the other (``get_layer_information`` in a loop),
as text with one line a layer (``LayerInformationFormat.ONELINE``), or within the verbose log of a build.
Profiles and times are read by `profile_files`. Nothing here needs TensorRT.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trtprof.base.errors import UsageError
from trtprof.base.plan_words import MYELIN_KIND
from trtprof.base.records import EnginePlan, Plan
from trtprof.base.text_file import read_text_file
from trtprof.engine._decode_json import decode_json
from trtprof.engine._plan_layers import make_plan
from trtprof.engine._plan_names import layer_served, myelin_graph
from trtprof.engine._plan_text import Text, read_text
from trtprof.engine.profile_files import join_profile, read_profile, read_times

__all__ = ["join_profile", "parse_layer_info", "plan_of_names", "read_layer_info", "read_profile", "read_times"]

REBUILD = (
    "build the engine again with --profilingVerbosity=detailed (in Python:"
    " config.profiling_verbosity = ProfilingVerbosity.DETAILED) and export with trtexec --exportLayerInfo=layers.json"
)
"""What mends a plan without detail."""

_EXPORT = "export it with trtexec --loadEngine=model.plan --exportLayerInfo=layers.json"
_BUILT = "Engine generation completed"
_ERROR = "[E]"
_LAYER_KEYS = ("Layers", "layers", "LayerInfo", "layerInfo")
_BINDING_KEYS = ("I/O Tensors", "Bindings", "bindings")
_DOCUMENT = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[\[\]{\"])")
"""The beginning of JSON: a log may begin with a bracket too, and a name with a brace."""
_OBJECT_START = re.compile(r"^[ \t]*(?=\{\s*\"|\[\s*\{)", re.MULTILINE)


def read_layer_info(path: Path, *, names: bool = False) -> Plan:
    """Read the layers of a TensorRT engine from a file; what kind of file it is shows in its content.

    Args:
        path: JSON or text of the engine inspector of TensorRT 8.2 to 11 or TensorRT-RTX, a log of ``trtexec`` or of a
            build that holds such text, or a document of ``trtprof build``. Of several plans in one log the last is
            taken, and a note says so.

    Returns:
        The plan, at least one layer long. Bytes and names are as far as the file tells, and its notes say what it does
            not tell.
    """
    plan = _parsed(read_text_file(path, what="layer information", fix=_EXPORT), path)
    return plan if names else _detailed(plan, path)


def parse_layer_info(text: str, path: Path) -> Plan:
    """The same of a text at hand, which the messages call ``path``; names alone are not enough."""
    return _detailed(_parsed(text, path), path)


def plan_of_names(layers: Iterable[tuple[str, str]], found_in: str, notes: Iterable[str] = ()) -> Plan:
    """A plan of layers of which no more than name and kind (or ``""``) is known, in execution order."""
    raw = [{"Name": name, "LayerType": kind or _kind(name)} for name, kind in layers]
    plan = make_plan(raw, (), found_in=found_in, era="TensorRT of an unknown version", notes=notes)
    return msgspec.structs.replace(plan, names_only=True)


def _kind(name: str) -> str:
    """What the name of a layer tells of its kind."""
    return "Reformat" if layer_served(name) else MYELIN_KIND if myelin_graph(name) is not None else ""


def _detailed(plan: Plan, path: Path) -> Plan:
    if plan.names_only:
        raise UsageError(
            f"{path} holds only the names of its {len(plan.layers)} layers",
            why="the engine was built without detailed profiling verbosity: no types, tensors or formats are in it",
            fix=f"give the ONNX model too (--onnx), which tells the work by the names; or {REBUILD}",
        )
    return plan


def _parsed(text: str, path: Path) -> Plan:
    if _DOCUMENT.match(text):
        try:
            return _from_json(path, text)
        except _NotOneDocumentError:
            return _from_objects(path, text)
    found = read_text(text)
    if found.sections or found.old_layers:
        return _from_text(path, found)
    if '"LayerType"' in text or '"Layers"' in text:
        return _from_objects(path, text)
    raise _nothing_in(path, text)


def _nothing_in(path: Path, text: str) -> UsageError:
    """Why a text holds no layers, by the signs that other files of TensorRT leave in it."""
    why = "it is neither JSON nor text with a line for every layer, nor a log with a line 'Layers:'"
    fix = _EXPORT
    if _BUILT in text:
        why = "it is the log of a build that printed no layers: without detailed profiling verbosity, or not verbose"
        fix = REBUILD
    elif (error := text.rfind(_ERROR)) >= 0:
        message = text[error + len(_ERROR) :].partition("\n")[0].strip()
        why = f"it is a log that ends without an engine: {message}"
    elif "=== Profile (" in text:
        why = "it holds the times of layers, as trtexec --dumpProfile prints them, but not what the layers are"
    return UsageError(f"{path} holds no layer information", why=why, fix=fix)


class _NotOneDocumentError(Exception):
    """The text begins with a JSON document, but does not end with it."""


def _from_json(path: Path, text: str) -> Plan:
    document, end = decode_json(path, text, 0)
    if text[end:].strip():
        raise _NotOneDocumentError
    if isinstance(document, Mapping) and "facts" in document and "layers" in document:
        return _our_own(path, document)
    layers, bindings = _layers_of(path, document)
    return _plan(path, layers, bindings, found_in="JSON")


def _our_own(path: Path, document: Mapping[str, Any]) -> Plan:
    """The plan in a document of ``trtprof build``: what was read when it was written, the nodes not."""
    try:
        found = msgspec.convert(document, EnginePlan)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{path} is no document of this version of trtprof",
            why=str(error),
            fix="write it again with trtprof build --exportLayerInfo, or give the engine's own layer information",
        ) from None
    return Plan(
        era=found.facts.era,
        layers=tuple(matched.layer for matched in found.layers),
        bindings=found.bindings,
        notes=found.facts.notes,
    )


def _from_objects(path: Path, text: str) -> Plan:
    """JSON objects one behind the other, with headers such as ``--- Layer 0 ---`` between them."""
    objects = []
    at = 0
    while start := _OBJECT_START.search(text, at):
        document, at = decode_json(path, text, start.end())
        objects.append(document)
    whole = [one for one in objects if isinstance(one, Mapping) and any(key in one for key in _LAYER_KEYS)]
    if whole:
        layers, bindings = _layers_of(path, whole[-1])
        notes = [f"{len(whole)} plans in the file: the last one is taken"] if len(whole) > 1 else []
        return _plan(path, layers, bindings, found_in="JSON amid other text", notes=notes)
    layers, bindings = _layers_of(path, [one for one in objects if not _is_bindings(one)])
    found: Mapping[str, Any] = next((one for one in objects if _is_bindings(one)), {})
    bindings = bindings or next((found[key] for key in _BINDING_KEYS if key in found), [])
    return _plan(path, layers, bindings, found_in="JSON objects of single layers")


def _is_bindings(value: Any) -> bool:
    return isinstance(value, Mapping) and "LayerType" not in value and any(key in value for key in _BINDING_KEYS)


def _layers_of(path: Path, document: Any) -> tuple[list[Any], list[Any]]:
    """The lists of layers and of bindings in a JSON document."""
    if isinstance(document, list):
        if any(_is_profile(one) for one in document):
            raise UsageError(
                f"{path} is no layer information",
                why="it holds times, as trtexec --exportProfile or --exportTimes writes them",
                fix="give it with --profile or --times, and the file of --exportLayerInfo as layer information",
            )
        return document, []
    if isinstance(document, Mapping):
        for key in _LAYER_KEYS:
            if isinstance(document.get(key), list):
                bindings: list[Any] = next(
                    (document[name] for name in _BINDING_KEYS if isinstance(document.get(name), list)), []
                )
                return document[key], bindings
        if "LayerType" in document:
            return [document], []
    raise UsageError(
        f"{path} is no layer information",
        why=f"its JSON has no list under any of {', '.join(_LAYER_KEYS)}",
        fix=_EXPORT,
    )


def _is_profile(value: Any) -> bool:
    return isinstance(value, Mapping) and "LayerType" not in value and ("averageMs" in value or "latencyMs" in value)


def _plan(
    path: Path, layers: list[Any], bindings: list[Any], *, found_in: str, era: str = "", notes: list[str] | None = None
) -> Plan:
    notes = notes or []
    if not layers:
        raise UsageError(
            f"{path} describes no layers",
            why="its list of layers is empty, as that of an engine is that was built with --profilingVerbosity=none",
            fix=REBUILD,
        )
    detailed = [one for one in layers if isinstance(one, Mapping) and ("LayerType" in one or "Outputs" in one)]
    if not detailed:
        if all(isinstance(one, str) or (isinstance(one, Mapping) and set(one) == {"Name"}) for one in layers):
            named = [(str(one if isinstance(one, str) else one["Name"]), "") for one in layers]
            return plan_of_names(named, f"{found_in}: names of layers alone", notes)
        raise UsageError(
            f"{path} is no layer information", why="none of the entries of its list is a layer", fix=_EXPORT
        )
    if len(detailed) < len(layers):
        notes = [*notes, f"{len(layers) - len(detailed)} of {len(layers)} entries are no layers and are left out"]
    return make_plan(detailed, bindings, found_in=found_in, era=era, notes=notes)


def _from_text(path: Path, found: Text) -> Plan:
    era = f"TensorRT {found.version}" if found.version else ""
    filled = [section for section in found.sections if section.layers]
    if filled:
        layers, _, bindings = filled[-1]
        notes = [f"{len(filled)} plans in the file: the last one is taken"] if len(filled) > 1 else []
        return _plan(path, layers, bindings, found_in="text of one line a layer", era=era, notes=notes)
    if found.old_layers:
        return _plan(
            path,
            found.old_layers,
            [],
            found_in="the 'Engine Layer Information' of a verbose log",
            era=era or "TensorRT of an unknown version",
            notes=[f"no attributes or weights of the layers, and all that Myelin compiles is one layer: {REBUILD}"],
        )
    names = max((section.names for section in found.sections), key=len, default=[])
    if names:
        return plan_of_names(((name, "") for name in names), "a log: names of layers alone")
    return _plan(path, [], [], found_in="")
