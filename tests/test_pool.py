from __future__ import annotations

import multiprocessing
import os
import threading
import time

import pytest

from pwan import pool
from pwan.pool import Failure, run_tasks
from tests import pool_tasks


def collect(function, tasks, workers):
    done, progress = {}, []
    run_tasks(
        function,
        tasks,
        workers=workers,
        on_done=lambda n, x: done.__setitem__(n, x),
        on_progress=lambda n, x: progress.append((n, x)),
    )
    return done, progress


@pytest.mark.parametrize("workers", [1, 2])
def test_results_and_progress_of_every_task_arrive(workers):
    done, progress = collect(pool_tasks.square, range(5), workers)
    assert done == {n: n * n for n in range(5)}
    assert sorted(progress) == [(n, n / 2) for n in range(5)]
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_is_the_outcome_of_its_task_alone(workers):
    done, _ = collect(pool_tasks.picky, range(5), workers)
    assert (done[0], done[4]) == (0, 4)
    assert done[1].reason == "one is not wanted"
    assert not done[1].missing_package
    assert done[2].missing_package
    assert "pip install two" in done[2].reason
    assert done[3].reason == "KeyError: 'three'"
    assert "pool_tasks" in done[3].details


def test_a_killed_worker_costs_only_its_task():
    done, _ = collect(pool_tasks.dying, range(5), 2)
    assert isinstance(done.pop(1), Failure)
    assert done == {0: 0, 2: 2, 3: 3, 4: 4}


def test_a_worker_that_dies_between_two_tasks_costs_nothing():
    done = {}

    def wait_for_its_death(number, outcome):
        done[number] = outcome
        end = time.monotonic() + 20
        while number == 0 and len(multiprocessing.active_children()) == 2 and time.monotonic() < end:
            time.sleep(0.01)

    run_tasks(
        pool_tasks.leaving, range(4), workers=2, on_done=wait_for_its_death, on_progress=lambda number, report: None
    )
    assert done == {n: n for n in range(4)}
    assert multiprocessing.active_children() == []


def test_a_task_fails_when_its_fresh_worker_is_dead_before_it_takes_it(monkeypatch):
    start, started = pool._start, []

    def first_one_dies(function, name):
        process, pipe = start(function, name)
        if not started:
            process.kill()
            process.join()
        started.append(process)
        return process, pipe

    monkeypatch.setattr(pool, "_start", first_one_dies)
    done, _ = collect(pool_tasks.square, range(4), 2)
    assert done.pop(0).reason == "the worker process ended with exit code -9"
    assert done == {n: n * n for n in (1, 2, 3)}


def test_workers_have_one_thread_and_the_parent_keeps_its_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    done, _ = collect(pool_tasks.threads, range(2), 2)
    assert done == {0: (1, "1"), 1: (1, "1")}
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_an_interrupt_ends_the_workers():
    def stop(number, outcome):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks(pool_tasks.square, range(4), workers=2, on_done=stop, on_progress=lambda n, x: None)
    assert multiprocessing.active_children() == []


def test_what_is_sent_to_all_processes_costs_no_task():
    done, _ = collect(pool_tasks.asked_to_end, range(4), 2)  # the parent alone makes something of it
    assert done == {n: n for n in range(4)}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_task_that_ends_the_process_has_failed(workers):
    done, _ = collect(pool_tasks.ending, range(3), workers)
    assert done.pop(1).reason.startswith("SystemExit")
    assert done == {0: 0, 2: 2}


def test_workers_are_numbered_and_a_replacement_has_the_number_of_the_dead_one():
    done, _ = collect(pool_tasks.number, [*range(4), "die", *range(8)], 2)
    assert isinstance(done.pop(4), Failure)
    assert set(done.values()) == {0, 1} and pool.worker_number() == 0
    assert collect(pool_tasks.number, range(1), 1)[0] == {0: 0}  # in this process


def test_workers_start_in_a_thread_too():
    done = {}
    thread = threading.Thread(target=lambda: done.update(collect(pool_tasks.square, range(3), 2)[0]))
    thread.start()
    thread.join()
    assert done == {0: 0, 1: 1, 2: 4}
