"""Small real data sets of files: coloured pictures, one folder a class. No TensorFlow, whose threads would stay."""

from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {"blue": (40, 60, 200), "green": (30, 180, 60), "red": (210, 40, 40)}


def make(folder: Path, *, train: int = 20, test: int = 5, test_folder: str = "val") -> Path:
    """`train` and `test` pictures of each class, 40×56 pixels; JPEG, the last of a class PNG."""
    random = np.random.default_rng(3)
    for part, count in (("train", train), (test_folder, test)):
        for name, colour in COLOURS.items():
            place = folder / part / name
            place.mkdir(parents=True)
            for number in range(count):
                noise = random.normal(0, 20, (40, 56, 3))
                picture = Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8))
                picture.save(place / (f"{number}.png" if number == count - 1 else f"{number}.jpg"), quality=95)
    return folder
