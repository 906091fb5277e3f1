"""Models, as users give them."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    Model = Union[str, os.PathLike[str], bytes, Any]
else:
    Model = Any


def read(model: Model) -> str | bytes:
    """A path, or the bytes of a model. Whatever has SerializeToString is an ``onnx.ModelProto``."""
    if hasattr(model, "SerializeToString"):
        return bytes(model.SerializeToString())
    return model if isinstance(model, bytes) else os.fspath(model)


class ModelFile:
    """A model as a file for as long as the context lasts."""

    def __init__(self, model: Model) -> None:
        self._model = read(model)
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> str:
        if isinstance(self._model, str):
            return self._model
        self._folder = tempfile.TemporaryDirectory(prefix="hypatia-")
        path = os.path.join(self._folder.name, "model.onnx")
        with open(path, "wb") as file:
            file.write(self._model)
        return path

    def __exit__(self, *error: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()
