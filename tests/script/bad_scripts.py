"""Scripts that can't be measured, by the way in which they can't; none needs more than Python."""

BAD = {
    "does not train": ("print('done')", "imported no framework that trains"),
    "hangs": ("import time\ntime.sleep(1000)", 'train.py", line 2 in <module>'),
    "prints without end": ("while True: print('x' * 10_000)", "printed more than 64 MiB"),
    "fails": ("raise KeyError('WORLD_SIZE')", "What usually helps: it can't train without other ranks"),
    "asks for a GPU": ("raise AssertionError('Torch not compiled with CUDA enabled')", "it asks for a GPU"),
    "downloads": (
        "from urllib.request import urlopen\nurlopen('http://example.com/data')",
        "it reaches for the network, and a run has none",
    ),
    "forks into the background": (
        "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(1000)",
        "left 1 processes in the background, which were ended",
    ),
    "hangs, with a daemon": (
        "import os, time\nif not os.fork():\n    os.setsid()\n    if os.fork(): os._exit(0)\ntime.sleep(1000)",
        "did not end within 8 s",
    ),
    "starts itself": (
        "import os, time\nwhile True:\n    if not os.fork(): time.sleep(99)\n    time.sleep(0.002)",
        "more than 400 processes",
    ),
    "knows not its arguments": (
        "import argparse\nargparse.ArgumentParser().parse_args()",
        "it does not know its arguments",
    ),
}
"""Name: text of the script, and what the message has."""
