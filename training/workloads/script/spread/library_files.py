"""All files of a process in a folder of its own: Python's, and those that libraries open by themselves, which are
PyTorch, safetensors, tokenizers, SQLite, HDF5, XGBoost and LightGBM. TensorFlow's are in `keras_files`."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from . import files
from .files import Layer
from .imports import when_imported

TEXT_FORMAT = "?format="
"""Follows the path of a text file that XGBoost reads."""


def redirect(folder: str) -> Layer:
    """Have this process write its files into `folder` and look there first when it reads; the same holds for libraries,
    once they are imported. Return the Layer that finds the files. Folders of the observer are not redirected, so that
    the observations of all ranks are in one place."""
    observers = [value for name, value in os.environ.items() if name.startswith("TRAINING_OBSERVE")]
    layer = files.redirect(folder, [value for value in observers if value.startswith(os.sep)])
    for name, of_library in (
        ("torch", _redirect_torch),
        ("safetensors", _redirect_safetensors),
        ("tokenizers", _redirect_tokenizers),
        ("sqlite3", _redirect_sqlite),
        ("h5py", _redirect_hdf5),
    ):
        when_imported(name, functools.partial(of_library, layer))
    return layer


def redirect_trees(layer: Layer, library: str, module: Any) -> None:
    """Have XGBoost or LightGBM write into the layer, and read there first."""

    def text_to_read(name: Any) -> Any:
        path, mark, kind = str(name).partition(TEXT_FORMAT)
        return f"{layer.to_read(path)}{mark}{kind}"

    if library == "xgboost":
        redirect_argument(module.Booster, "save_model", 1, layer.to_write, "fname")
        redirect_argument(module.Booster, "load_model", 1, layer.to_read, "fname")
        redirect_argument(module.DMatrix, "save_binary", 1, layer.to_write, "fname")
        redirect_argument(module.DMatrix, "__init__", 1, text_to_read, "data")
    else:
        redirect_argument(module.Booster, "save_model", 1, layer.to_write, "filename")
        redirect_argument(module.Booster, "__init__", 3, layer.to_read, "model_file")
        redirect_argument(module.basic._InnerPredictor, "from_model_file", 0, layer.to_read, "model_file")
        redirect_argument(module.Dataset, "save_binary", 1, layer.to_write, "filename")
        redirect_argument(module.Dataset, "__init__", 1, layer.to_read, "data")


def _redirect_torch(layer: Layer, torch: Any) -> None:
    """Redirect files that PyTorch opens itself to the layer."""
    redirect_argument(torch._C, "PyTorchFileWriter", 0, layer.to_write)
    redirect_argument(torch._C, "PyTorchFileReader", 0, layer.to_read)
    redirect_argument(torch._C, "import_ir_module", 1, layer.to_read)
    redirect_argument(torch.jit.RecursiveScriptModule, "save", 1, layer.to_write)


def redirect_argument(owner: Any, name: str, place: int, where: Callable[[Any], Any], keyword: str = "") -> None:
    """Replace a function whose argument, at position `place` or named `keyword`, is a path or an open file, so that it
    is called with the path that `where` returns."""
    call = getattr(owner, name)

    def redirected(*args: Any, **more: Any) -> Any:
        places = list(args)
        if len(places) > place and isinstance(places[place], (str, bytes, os.PathLike)):
            places[place] = where(places[place])
        if isinstance(more.get(keyword), (str, os.PathLike)):
            more[keyword] = where(more[keyword])
        return call(*places, **more)

    with contextlib.suppress(AttributeError, TypeError):  # of a function in C
        functools.update_wrapper(redirected, call)
    setattr(owner, name, redirected)


def _redirect_sqlite(layer: Layer, sqlite3: Any) -> None:
    def where(path: Any) -> Any:
        text = os.fsdecode(path)
        return path if text in ("", ":memory:") or text.startswith("file:") else layer.to_write(path, keeps=True)

    redirect_argument(sqlite3, "connect", 0, where)


def _redirect_safetensors(layer: Layer, module: Any) -> None:
    """Redirect the files of safetensors to the layer, because it opens files itself."""
    save, read = module.serialize_file, module.safe_open

    def serialize_file(tensors: Any, filename: Any, *args: Any, **more: Any) -> Any:
        return save(tensors, layer.to_write(filename), *args, **more)

    def safe_open(filename: Any, *args: Any, **more: Any) -> Any:
        return read(layer.to_read(filename), *args, **more)

    for name, other in list(sys.modules.items()):
        if name.partition(".")[0] == "safetensors":
            for function in (serialize_file, safe_open):
                if hasattr(other, function.__name__):
                    setattr(other, function.__name__, function)


def _redirect_tokenizers(layer: Layer, tokenizers: Any) -> None:
    def folder(path: Any) -> Any:
        both = layer.own(path)
        if both is not None:
            layer.folders(both[1])
        return path if both is None else both[1]

    redirect_argument(tokenizers.Tokenizer, "save", 1, layer.to_write, "path")
    redirect_argument(tokenizers.Tokenizer, "from_file", 0, layer.to_read, "path")
    redirect_argument(tokenizers.models.Model, "save", 1, folder, "folder")


def _redirect_hdf5(layer: Layer, h5py: Any) -> None:
    make = h5py.File.__init__

    def __init__(file: Any, name: Any, mode: str = "r", *args: Any, **more: Any) -> None:
        if isinstance(name, (str, bytes)) or hasattr(name, "__fspath__"):
            name = layer.to_read(name) if mode == "r" else layer.to_write(name, keeps=mode in ("a", "r+"))
        make(file, name, mode, *args, **more)

    h5py.File.__init__ = __init__
