"""Files that travel: models to nodes that lack them, run folders back."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import zipfile
from pathlib import Path

import pytest

from tests.fakes.support import SAMPLES
from trtprof.flows.fleet import travel
from trtprof.flows.fleet.contents import Contents
from trtprof.flows.fleet.travel import NodeFolder, content_at, pack, unpack
from trtprof.source import load

pytestmark = pytest.mark.nightly


def model(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return Contents(None).of(path).sha256


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


def test_a_model_whose_files_were_tidied_away_is_fetched_again(tmp_path: Path) -> None:
    sha256 = model(tmp_path / "m.onnx", b"abc")
    (tmp_path / "node").mkdir()
    folder = NodeFolder(tmp_path / "node")
    assert kept(folder, sha256, b"abc") == b"abc"
    for path in (tmp_path / "node").glob("model-*/m.onnx"):
        path.unlink()
    assert kept(folder, sha256, b"abc") == b"abc"


def test_several_use_a_model_at_once(tmp_path: Path) -> None:
    sha256 = model(tmp_path / "m.onnx", b"abc")
    (tmp_path / "node").mkdir()
    again = threading.Thread(target=kept, args=(NodeFolder(tmp_path / "node"), sha256, b"abc"), daemon=True)
    with NodeFolder(tmp_path / "node").model(sha256, "m.onnx", [("m.onnx", lambda: [b"abc"])]):
        again.start()
        again.join(10)
        assert not again.is_alive()


def test_a_model_that_changes_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.onnx"
    real = load.outline

    def changed(asked: Path) -> load.Outline:
        found = real(asked)
        path.write_bytes(b"longer")
        return found

    shutil.copy(SAMPLES / "gemv.onnx", path)
    with monkeypatch.context() as patched:
        patched.setattr(load, "outline", changed)
        content_at(path)
    assert content_at(path) == hashlib.sha256(b"longer").hexdigest()


def test_a_model_that_was_not_there_is_seen_when_it_is(tmp_path: Path) -> None:
    before = content_at(tmp_path / "m.onnx")
    assert model(tmp_path / "m.onnx", b"abc") == content_at(tmp_path / "m.onnx") != before


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


@pytest.mark.parametrize("sent", [False, True])
def test_a_worker_that_died_leaves_nothing_for_long(tmp_path: Path, sent: bool) -> None:
    (tmp_path / "node").mkdir()
    folder = NodeFolder(tmp_path / "node")

    def dies() -> list[bytes]:
        os._exit(9)

    child = os.fork()
    if not child:
        if sent:
            with folder.model("0" * 64, "m.onnx", [("m.onnx", dies)]):
                dies()
        with folder.scratch() as scratch:
            (scratch / "file").touch()
            dies()
    assert os.waitpid(child, 0)[1] == 9 << 8
    assert [path for path in (tmp_path / "node").iterdir() if path.is_dir()]
    for lock in (tmp_path / "node").glob("*.lock"):
        lock.unlink()
    with folder.scratch() as own:
        assert [path for path in (tmp_path / "node").iterdir() if path.is_dir()] == [own]
        with folder.scratch() as other:
            assert own.is_dir()
            assert other.is_dir()
    assert not list((tmp_path / "node").iterdir())


def test_a_digest_is_read_once_and_again_when_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    first = model(path, b"abc")
    assert travel.content_at(path) == travel.content_at(path) == first
    second = model(path, b"abcd")
    assert travel.content_at(path) == second != first


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


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a\\..\\x", ""])
def test_an_archive_writes_nowhere_else(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "zip", "w") as packed:
        packed.writestr("fine", b"1")
        packed.writestr(zipfile.ZipInfo(name), b"1")
    with pytest.raises(ValueError, match="no file of a run folder"):
        unpack(tmp_path / "zip", tmp_path / "sub" / "back")
    assert not (tmp_path / "sub").exists()


def test_an_archive_that_is_none_or_holds_a_link_or_too_much_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "link", "w") as packed:
        packed.writestr(link, b"/etc")
    with pytest.raises(ValueError, match="no file of a run folder"):
        unpack(tmp_path / "link", tmp_path / "back")
    with zipfile.ZipFile(tmp_path / "large", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a", b"0" * 10_000)
    with pytest.raises(ValueError, match="more than 9999 bytes"):
        unpack(tmp_path / "large", tmp_path / "back", most_bytes=9999)
    (tmp_path / "none").write_bytes((tmp_path / "large").read_bytes()[:-10])
    with pytest.raises(ValueError, match="damaged"):
        unpack(tmp_path / "none", tmp_path / "back")
