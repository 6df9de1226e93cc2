"""What run.py calls: compose the configuration with Hydra, check it, run the task; errors become a few lines."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from hydra import main as hydra_main
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from pwan.app import tasks
from pwan.app.config import check, register_schema
from pwan.app.messages import explain
from pwan.bench.rows import read_rows
from pwan.bench.summary import write_summary

OK, FAILED, WRONG_INPUT, STOPPED = 0, 1, 2, 130
TRACEBACKS = "HYDRA_FULL_ERROR"  # Hydra's own variable: set by the user, every error comes with its traceback


def main(arguments: Sequence[str], *, conf: Path) -> int:
    """Run the command line.

    Args:
        arguments: what follows ``run.py``.
        conf: the folder of the configuration.

    Returns:
        The exit code: 0 done (single failed trials included), 1 a job failed as a whole, 2 wrong input,
        130 stopped by Ctrl-C.
    """
    nothing = not arguments
    if nothing:
        print("Nothing to run was named. Try: python run.py experiment=noise_bunny\n", file=sys.stderr)
        arguments = ["--help"]
    register_schema()
    codes: list[int] = []
    before, tracebacks = sys.argv, os.environ.get(TRACEBACKS)
    sys.argv = [before[0], *map(_open_nodes, arguments)]
    os.environ[TRACEBACKS] = "1"  # Hydra then raises, and we say it in our words
    try:
        hydra_main(version_base="1.3", config_path=str(conf.resolve()), config_name="config")(
            lambda config: codes.append(_run_job(config))
        )()
    except KeyboardInterrupt:
        return STOPPED
    except SystemExit as end:  # --help, --version and Hydra's own parser of flags
        return WRONG_INPUT if nothing else end.code if isinstance(end.code, int) else OK
    except (HydraException, OmegaConfBaseException, OSError) as error:
        if tracebacks:
            raise
        print(f"error: {explain(error, conf)}", file=sys.stderr)
        return WRONG_INPUT
    finally:
        sys.argv = before
        if tracebacks is None:
            del os.environ[TRACEBACKS]
        else:
            os.environ[TRACEBACKS] = tracebacks
    return max(codes, default=OK)


def _run_job(config: DictConfig) -> int:
    """One run, or one cell of a sweep; a failure is told and does not end the sweep."""
    hydra = HydraConfig.get()
    folder = Path(hydra.runtime.output_dir).resolve()
    try:
        checked = check(config)
        code = tasks.find(checked.task).run(checked, checked.options, folder)
        print(f"results: {folder}")
        if hydra.mode == RunMode.MULTIRUN and checked.task == "benchmark":
            sweep = Path(hydra.sweep.dir).resolve()
            write_summary(sweep, read_rows(sweep))
            print(f"all cells so far: {sweep / 'summary.csv'}")
        return code
    except (ValueError, OSError, OmegaConfBaseException) as error:
        if not _is_ours(error):
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        with contextlib.suppress(OSError):
            folder.rmdir()  # Hydra makes the folder before anything is checked; goes only if it is empty
        return WRONG_INPUT
    except KeyboardInterrupt:
        print(f"\nStopped. The rows so far are in {folder}; the same command again does only what is missing.")
        raise
    except Exception:
        traceback.print_exc()
        (folder / "error.txt").write_text(traceback.format_exc())
        print(f"error: the job ended unexpectedly; the traceback is also in {folder / 'error.txt'}", file=sys.stderr)
        return FAILED


def _open_nodes(argument: str) -> str:
    """``method.pwan.steps=3`` sets a key that no YAML lists (defaults stand in dataclasses), so Hydra must add it.

    The key is checked against the settings afterwards.
    """
    return f"++{argument}" if re.match(r"(method\.\w+|options)\.\w+=", argument) else argument


def _is_ours(error: BaseException) -> bool:
    """Whether the message is meant for the user: one from the depths of a library needs its traceback beside it."""
    if isinstance(error, (OSError, OmegaConfBaseException)):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).is_relative_to(Path(__file__).parents[1])
