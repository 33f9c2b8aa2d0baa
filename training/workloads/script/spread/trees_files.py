"""Files that XGBoost and LightGBM open by themselves, of a process whose files are in the layer."""

from __future__ import annotations

from typing import Any

from .files import Layer
from .library_files import redirect_argument

FORMAT = "?format="
"""Stands behind the path of a text file that XGBoost reads."""


def redirect(layer: Layer, library: str, module: Any) -> None:
    """Have a library write into the layer, and read there first."""

    def text_to_read(name: Any) -> Any:
        path, mark, kind = str(name).partition(FORMAT)
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
