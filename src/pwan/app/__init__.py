"""What run.py and ``pwan run`` call: compose with Hydra, check, run the task; errors become a few lines."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hydra import main as hydra_main
from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

import pwan
from pwan import process
from pwan.app import closing, flags, help, own_scans
from pwan.app.catalogue import TASKS
from pwan.app.checked import Checked
from pwan.app.composing import composed_once
from pwan.app.config import check, register_schema
from pwan.app.messages import explain
from pwan.exit_codes import FAILED, OK, WRONG_INPUT
from pwan.files import naming, words
from pwan.place import command

TRACEBACKS = "HYDRA_FULL_ERROR"  # Hydra's own variable: set by the user, every error comes with its traceback

_codes: list[int] = []  # of the jobs that ran in this process

closing.register_key()
register_schema()  # on import: a launcher's process composes a cell before it calls anything of ours


def main(arguments: Sequence[str], *, conf: Path) -> int:
    """Run the command line.

    Args:
        arguments: what follows ``run.py``.
        conf: the folder of the configuration.

    Returns:
        The exit code: 0 done (single failed trials included), 1 a job failed as a whole, 2 wrong input,
        130 stopped by Ctrl-C, 143 and 129 by SIGTERM and SIGHUP.
    """
    if not {"TORCHELASTIC_RUN_ID", "SLURM_STEP_ID"} & set(os.environ):  # torch is not loaded before it is needed
        return _main(arguments, conf)
    from pwan.lightning import processes
    from pwan.lightning.crew import assemble

    try:
        crew = processes.crew = assemble()
    except (ValueError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG_INPUT
    if crew is None:
        return _main(arguments, conf)
    if crew.rank > 0:
        crew.follow()
        return OK
    try:
        return _main(arguments, conf)
    finally:
        crew.dismiss()


def _main(arguments: Sequence[str], conf: Path) -> int:
    if own_scans.TASK in arguments:
        return own_scans.main([argument for argument in arguments if argument != own_scans.TASK])
    nothing = not arguments
    try:
        for word in arguments:
            name, _, value = word.partition("=")
            if name == "task" and "," not in value:  # first, since another task knows other keys
                TASKS.check_name(value)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG_INPUT
    if nothing:
        print(f"Nothing to run was named. Try: {command()} experiment=noise_bunny\n", file=sys.stderr)
        arguments = ["--help"]
    try:
        given = flags.parse(arguments)
        folders = given.folders(conf)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG_INPUT
    if "--version" in given.flags:
        print(f"pwan {pwan.__version__}")
        return OK
    if "--help" in given.flags:
        print(help.text(folders))
        return WRONG_INPUT if nothing else OK
    return _hydra(given.for_hydra(), folders)


def _hydra(arguments: list[str], folders: list[Path]) -> int:
    """Let Hydra compose and run, and say what it complains of in our words."""
    _codes.clear()
    closing.begin()
    before, tracebacks, path = sys.argv, os.environ.get(TRACEBACKS), os.environ.get("PYTHONPATH")
    stopped = False
    sys.argv = [before[0], *arguments]
    os.environ[TRACEBACKS] = "1"  # Hydra then raises
    try:
        with composed_once(arguments, folders):
            hydra_main(version_base="1.3", config_path=str(folders[0]), config_name="config")(_run_job)()
        code = max(_codes, default=OK)
    except KeyboardInterrupt as stop:
        code, stopped = process.code_of(stop), True
    except SystemExit as end:  # --hydra-help, and what Hydra refuses by itself
        return end.code if isinstance(end.code, int) else FAILED if end.code else OK
    except (HydraException, OmegaConfBaseException, OSError, YAMLError) as error:
        if tracebacks:
            raise
        print(f"error: {explain(error, folders, closing.Sweep.folder)}", file=sys.stderr)
        code = WRONG_INPUT
    except Exception:
        if closing.Sweep.folder is None:
            raise
        traceback.print_exc()  # a launcher's own complaint, for example that one of its processes was killed
        print("error: the launcher failed; the same command again does only what is missing", file=sys.stderr)
        code = FAILED
    finally:
        sys.argv = before
        _restore(TRACEBACKS, tracebacks)
        _restore("PYTHONPATH", path)
    return max(code, _close(stopped)) if closing.Sweep.folder else code


def _close(stopped: bool) -> int:
    """The end of a sweep, see :func:`pwan.app.closing.close`; its summary may find no place."""
    try:
        return closing.close(stopped=stopped)
    except OSError as error:
        print(f"error: {words(error)}", file=sys.stderr)
        return WRONG_INPUT


def _run_job(config: DictConfig) -> int:
    """One run, or one cell of a sweep, maybe in a launcher's process; a failure is told and does not end the sweep."""
    process.take_every_word()
    hydra = HydraConfig.get()
    sweep = hydra.mode == RunMode.MULTIRUN
    if sweep:
        closing.note(hydra, config.task, None)
    code, error = _attempt(config, hydra)
    if sweep:
        closing.note(hydra, config.task, code, error)
    _codes.append(code)
    return code


def _attempt(config: DictConfig, hydra: HydraConf) -> tuple[int, str]:
    """The exit code of a job, and why it ended early."""
    folder = Path(hydra.runtime.output_dir).resolve()
    try:
        checked = check(config)
        if hydra.mode == RunMode.MULTIRUN:
            checked = _alone(checked, hydra)
        with naming(folder):
            code = TASKS.find(checked.task).run(checked, checked.options, folder)
        if folder.exists():
            print(f"results: {folder}")
        return code, ""
    except (ValueError, OSError, OmegaConfBaseException) as error:
        if not _is_ours(error):
            traceback.print_exc()
        said = words(error) if isinstance(error, OSError) else str(error)
        print(f"error: {said}", file=sys.stderr)
        with contextlib.suppress(OSError):
            folder.rmdir()  # Hydra makes the folder before anything is checked; goes only if it is empty
        return WRONG_INPUT, said
    except KeyboardInterrupt:
        print(f"\nStopped. The rows so far are in {folder}; the same command again does only what is missing.")
        raise
    except (Exception, SystemExit) as error:  # a library that ends the process has not done the work
        traceback.print_exc()
        with contextlib.suppress(OSError):
            (folder / "error.txt").write_text(traceback.format_exc(), encoding="utf-8", errors="backslashreplace")
        print(f"error: the job ended unexpectedly; the traceback is also in {folder / 'error.txt'}", file=sys.stderr)
        return FAILED, f"{type(error).__name__}: {error}"


def _alone(checked: Checked, hydra: HydraConf) -> Checked:
    """A launcher that runs several cells at once has filled the cores: the cells then start no processes of their own.

    A number that the user gave stays.
    """
    return replace(checked, workers=1) if checked.workers == "auto" and closing.in_parallel(hydra) else checked


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _is_ours(error: BaseException) -> bool:
    """Whether the message is meant for the user: one from the depths of a library needs its traceback beside it."""
    if isinstance(error, (OSError, OmegaConfBaseException)):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).is_relative_to(Path(__file__).parents[1])
