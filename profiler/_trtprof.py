"""The module ``trtprof`` of an installation (`pyproject.toml` puts this file there): another name of `profiler`.

``import trtprof`` gives the package `profiler` itself, and ``trtprof.base.errors`` the module `profiler.base.errors`:
the same objects, not a second copy of them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import profiler

_NAME = "trtprof"


class _Alias(MetaPathFinder, Loader):
    """Finds ``trtprof.x`` as `profiler.x`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target  # where the module lies is known
        return ModuleSpec(fullname, self) if fullname.startswith(_NAME + ".") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(profiler.__name__ + spec.name.removeprefix(_NAME))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # It ran under its own name, whose spec the import system has just replaced.
        assert module.__spec__ is not None  # noqa: S101 - set a moment ago
        module.__spec__ = module.__spec__.loader_state


if __name__ == "__main__":
    from profiler.__main__ import main

    main()
else:
    sys.meta_path.insert(0, _Alias())
    sys.modules[__name__] = profiler
