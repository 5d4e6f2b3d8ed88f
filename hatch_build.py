"""Packaging: compiles the core for this machine, or for ROBUSTRUCT_TARGET, one of build.TARGETS."""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CORE = Path("src", "robustruct", "core")


def _builder(root: str) -> Any:
    """core/build.py, which is no module of an installed package yet."""
    spec = spec_from_file_location("robustruct_core_build", Path(root, CORE, "build.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CoreHook(BuildHookInterface):
    """Adds the compiled core to a wheel, and compiles it beside its sources for an editable one."""

    def dependencies(self) -> list[str]:
        """A compiler from the package index, where there is none or for another platform."""
        needed = os.environ.get("ROBUSTRUCT_TARGET") or not _builder(self.root).system_compiler()
        return ["ziglang>=0.13"] if needed else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        builder = _builder(self.root)
        target = os.environ.get("ROBUSTRUCT_TARGET")
        build_data["pure_python"] = False
        if target:
            self._folder = tempfile.TemporaryDirectory()
            made = builder.cross_build(target, Path(self._folder.name))
            platform = builder.TARGETS[target].tag
        else:
            made = [builder.build()]
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        if version != "editable":
            build_data["force_include"].update(
                {str(path): f"robustruct/core/{path.name}" for path in made}
            )
