"""A file system of Arrow that does as object stores do, on a folder of this machine.

A file appears whole when it is closed, times are whole seconds, and folders are nothing but names.
"""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs


class _Upload(io.BytesIO):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        if not self.closed:
            beside = self._path.parent.parent / f".upload{id(self)}"
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(self.getvalue())
            os.replace(beside, self._path)
        super().close()


class _Handler(pafs.FileSystemHandler):  # type: ignore[misc]
    def __init__(self, root: Path) -> None:
        self.root = root
        self.moved: list[str] = []

    def get_type_name(self) -> str:
        return "s3"

    def normalize_path(self, path: str) -> str:
        return path

    def _info(self, path: str) -> pafs.FileInfo:
        try:
            found = (self.root / path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return pafs.FileInfo(path, pafs.FileType.NotFound)
        if (self.root / path).is_dir():
            return pafs.FileInfo(path, pafs.FileType.Directory)
        return pafs.FileInfo(path, pafs.FileType.File, mtime=float(int(found.st_mtime)), size=found.st_size)

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        folder = self.root / selector.base_dir
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
        return [self._info(f"{selector.base_dir}/{name}") for name in names if not name.startswith(".upload")]

    def create_dir(self, path: str, recursive: bool) -> None:
        pass

    def delete_dir(self, path: str) -> None:
        shutil.rmtree(self.root / path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        (self.root / path).unlink()

    def move(self, src: str, dest: str) -> None:
        self.moved.append(src)
        (self.root / dest).parent.mkdir(parents=True, exist_ok=True)
        os.replace(self.root / src, self.root / dest)

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> Any:
        return pa.OSFile(str(self.root / path), "rb")

    def open_output_stream(self, path: str, _: Any) -> Any:
        return pa.PythonFile(_Upload(self.root / path), mode="w")

    def open_append_stream(self, path: str, _: Any) -> Any:
        raise NotImplementedError


def object_store(root: Path) -> tuple[pafs.FileSystem, list[str]]:
    """The file system, and what was moved in it, which costs a copy."""
    handler = _Handler(root)
    return pafs.PyFileSystem(handler), handler.moved
