"""Scripts that can't be measured, by the way in which they can't; none needs more than Python."""

BAD = {
    "does not train": "print('done')",
    "hangs": "import time\ntime.sleep(1000)",
    "prints without end": "while True: print('x' * 10_000)",
    "fails": "raise KeyError('WORLD_SIZE')",
    "asks for a GPU": "raise AssertionError('Torch not compiled with CUDA enabled')",
    "downloads": "from urllib.request import urlopen\nurlopen('http://example.com/data')",
    "forks into the background": (
        "import os, time\n"
        "if os.fork():\n    os.wait()\n    os._exit(0)\n"
        "os.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(1000)"
    ),
    "hangs, with a daemon": (
        "import os, time\nif not os.fork():\n    os.setsid()\n    if os.fork(): os._exit(0)\ntime.sleep(1000)"
    ),
    "starts itself": "import os, time\nwhile True:\n    if not os.fork(): time.sleep(99)\n    time.sleep(0.002)",
    "knows not its arguments": "import argparse\nargparse.ArgumentParser().parse_args()",
}
"""Name: text of the script."""
