"""Files that travel: models to nodes that lack them, run folders back."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtprof.flows.fleet.contents import content_of
from trtprof.flows.fleet.travel import NodeFolder, pack, unpack

pytestmark = pytest.mark.nightly


def model(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return content_of(path).sha256


def kept(folder: NodeFolder, sha256: str, content: bytes) -> bytes:
    with folder.model(sha256, "m.onnx", [("m.onnx", lambda: [content])]) as path:
        return path.read_bytes()


def test_a_model_is_kept_and_fetched_once(tmp_path: Path) -> None:
    sha256 = model(tmp_path / "m.onnx", b"abc")
    folder = NodeFolder(tmp_path / "node")
    (tmp_path / "node").mkdir()
    assert kept(folder, sha256, b"abc") == b"abc"

    def never() -> list[bytes]:
        raise AssertionError

    with folder.model(sha256, "m.onnx", [("m.onnx", never)]) as path:
        assert path.read_bytes() == b"abc"


def test_what_arrives_is_checked(tmp_path: Path) -> None:
    sha256 = model(tmp_path / "m.onnx", b"abc")
    (tmp_path / "node").mkdir()
    folder = NodeFolder(tmp_path / "node")
    with pytest.raises(ValueError, match="is not what was sent"):
        kept(folder, sha256, b"abd")
    with (
        pytest.raises(ValueError, match="no place"),
        folder.model(sha256, "m.onnx", [("m.onnx", lambda: [b"abc"]), ("../w", lambda: [b""])]),
    ):
        pass
    assert not (tmp_path / "w").exists()
    assert kept(folder, sha256, b"abc") == b"abc", "and what went wrong leaves nothing"


def test_models_that_were_not_used_longest_go_but_none_in_use(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    folder = NodeFolder(tmp_path / "node", most_bytes=25)
    contents = [bytes([65 + at]) * 10 for at in range(4)]
    digests = [model(tmp_path / f"{at}", content) for at, content in enumerate(contents)]

    def there() -> list[bytes]:
        return sorted(path.read_bytes()[:1] for path in (tmp_path / "node").glob("model-*/m.onnx"))

    with folder.model(digests[0], "m.onnx", [("m.onnx", lambda: [contents[0]])]):
        for at in (1, 2):
            kept(folder, digests[at], contents[at])
        assert there() == [b"A", b"C"]
    kept(folder, digests[3], contents[3])
    assert there() == [b"C", b"D"]


def test_a_folder_comes_back_as_it_was_without_links(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "deep").mkdir(parents=True)
    (run / "report.json").write_text("{}")
    (run / "deep" / "x").write_bytes(b"\0" * 5000)
    (run / "link").symlink_to("/etc/passwd")
    pack(run, tmp_path / "zip")
    unpack(tmp_path / "zip", tmp_path / "back")
    found = {str(path.relative_to(tmp_path / "back")) for path in (tmp_path / "back").rglob("*") if path.is_file()}
    assert found == {"report.json", "deep/x"}
    assert (tmp_path / "back" / "deep" / "x").read_bytes() == b"\0" * 5000
