"""Functions that spawned workers can import."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from pwan import pool


def square(task, report):
    report(task / 2)
    return task * task


def picky(task, report):
    if task == 1:
        raise ValueError("one is not wanted")
    if task == 2:
        raise ImportError("install it with: pip install two")
    if task == 3:
        raise KeyError("three")
    return task


def dying(task, report):
    if task == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def leaving(task, report):
    if task == 0:  # dies once its result is sent
        threading.Thread(target=lambda: (time.sleep(0.3), os._exit(3))).start()
    return task


def threads(task, report):
    import torch  # here: the other tasks start in a tenth of the time without it

    return torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]


def number(task, report):
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.5)  # so that each worker takes some
    return pool.worker_number()


def asked_to_end(task, report):
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGHUP)
    return task


def ending(task, report):
    if task == 1:
        sys.exit(0)
    return task
