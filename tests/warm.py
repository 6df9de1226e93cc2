"""Commands as processes of their own that need not load their libraries: forked from a process that has loaded them.

Loading takes most of the time of a small run. The fork has its own session, arguments, environment, folder and streams,
made as an interpreter makes them, and ends as any interpreter does. What is to be seen of the start itself needs a
fresh process.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
LOADED = ("pwan.app", "pwan.lightning", "pwan.scans.registering", "pwan.app.tasks.benchmark", "wandb")


class Running:
    """A command that runs.

    Args:
        arguments: ``["run.py", ...]``, or another script first, or ``["pwan", ...]`` as the installed command.
        environment: all its variables.
        folder: where it stands.
        stdout, stderr: descriptors.
        file_limit: bytes that a file may have.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        stdout: int,
        stderr: int,
        file_limit: int = resource.RLIM_INFINITY,
    ) -> None:
        told, tell = os.pipe()
        self._told = os.fdopen(told)
        self.returncode: int | None = None
        order = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "folder": str(folder),
            "file_limit": file_limit,
        }
        socket.send_fds(_parent(), [json.dumps(order).encode()], [tell, stdout, stderr])
        os.close(tell)
        self.pid = int(self._told.readline())

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        os.set_blocking(self._told.fileno(), False)
        line = self._told.readline()
        if line:
            self.returncode = int(line)
            self._told.close()
        return self.returncode

    def wait(self, timeout: float = 120) -> int:
        """The exit code, in the end."""
        end = time.monotonic() + timeout
        while self.returncode is None and self.poll() is None:
            if time.monotonic() > end:
                os.killpg(self.pid, signal.SIGKILL)
                raise TimeoutError(f"process {self.pid} still ran after {timeout} s")
            time.sleep(0.01)
        assert self.returncode is not None
        return self.returncode


def run(arguments: Sequence[str], **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; what it says is captured where ``more`` gives no ``stdout`` or ``stderr``."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = Running(arguments, **{"stdout": out.fileno(), "stderr": err.fileno(), **more}).wait()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return subprocess.CompletedProcess(list(arguments), code, *texts)


@cache
def _parent() -> socket.socket:
    """Where the orders go: to one process for all tests of this one, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, __file__, str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, cwd=ROOT)
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _next_order(orders: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Returns in the process of a command, once for each; the process that holds the libraries ends in here."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        text, (*descriptors,), _, _ = socket.recv_fds(orders, 1 << 20, 3)
        if not text:
            os._exit(0)
        if os.fork() == 0:
            break
        for descriptor in descriptors:
            os.close(descriptor)
    orders.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    tell, *streams = descriptors
    child = os.fork()
    if child == 0:
        os.close(tell)
        return json.loads(text), streams
    for stream in streams:
        os.close(stream)
    os.write(tell, f"{child}\n".encode())
    os.write(tell, f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())
    os._exit(0)


def _become(order: dict[str, Any], streams: list[int]) -> NoReturn:
    os.setsid()
    for number, stream in zip((1, 2), streams, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    resource.setrlimit(resource.RLIMIT_FSIZE, (order["file_limit"], resource.RLIM_INFINITY))
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")
    sys.stdout = open(1, "w", encoding=encoding, errors=errors or "strict", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    program, *sys.argv[1:] = order["arguments"]
    sys.argv[0] = str(ROOT / program)
    if program == "pwan":
        from pwan.console import command

        command()
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    for _name in LOADED:
        importlib.import_module(_name)
    gc.freeze()  # what is loaded is not gone through, and so not copied, in each fork
    _become(*_next_order(socket.socket(fileno=int(sys.argv[1]))))
