"""Lets training go first: every thread of Ray's runs only when no training thread wants the CPU. Linux only."""

import os
import sys
import threading
from contextlib import suppress

import psutil

TRAIN_WORKER = "ray::RayTrainWorker"


def yield_to_training(driver: int) -> None:
    """Have the system run Ray's own threads only when no training thread wants the CPU (Linux's SCHED_IDLE).

    Those are all threads of the process `driver` and of what it started, training workers included, but for the thread
    that calls this: the threads of TensorFlow, which come later, are its children. Does nothing on other systems.
    """
    if not sys.platform.startswith("linux"):
        return
    started = psutil.Process(driver)
    for process in (started, *started.children(recursive=True)):
        with suppress(psutil.Error, OSError):  # gone meanwhile
            if process.pid == os.getpid() or TRAIN_WORKER not in " ".join(process.cmdline()):
                for thread in process.threads():
                    if thread.id != threading.get_native_id():
                        os.sched_setscheduler(thread.id, os.SCHED_IDLE, os.sched_param(0))
