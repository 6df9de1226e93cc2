"""What ends a command's process, and its streams; how whole commands end is in tests/app/test_ends.py."""

from __future__ import annotations

import io
import os
import signal
import sys

import pytest

from pwan import process


def ended_with(main) -> int:
    with pytest.raises(SystemExit) as end:
        process.run(main)
    return end.value.code


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_command_with_its_code_and_what_was_there_before_is_back(number, code):
    before = signal.getsignal(number)
    assert ended_with(lambda: os.kill(os.getpid(), number)) == code
    assert signal.getsignal(number) is before


def test_a_second_signal_does_not_cut_the_tidying_short():
    tidied = []

    def main():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            tidied.append(True)
        return 0

    assert ended_with(main) == 143 and tidied == [True]


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup has it
    try:
        assert ended_with(lambda: os.kill(os.getpid(), signal.SIGHUP) or 7) == 7
    finally:
        signal.signal(signal.SIGHUP, before)


def stream_of(number: int, encoding: str, errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(io.FileIO(number, "w", closefd=False)), encoding, errors)


@pytest.mark.parametrize(
    ("encoding", "errors", "text", "written"),
    [
        ("ascii", "strict", "ä→", b"\\xe4\\u2192"),
        ("ascii", "surrogateescape", "ä→", b"\\xe4\\u2192"),
        ("cp1252", "strict", "ä→", b"\xe4\\u2192"),
        ("utf-8", "strict", "ä\udcf6", b"\xc3\xa4\\udcf6"),
        ("utf-8", "surrogateescape", "ä\udcf6", b"\xc3\xa4\xf6"),
    ],
)
def test_what_an_encoding_lacks_stands_there_as_an_escape(monkeypatch, encoding, errors, text, written):
    reading, writing = os.pipe()
    monkeypatch.setattr(sys, "stdout", stream_of(writing, encoding, errors))
    process.take_every_word()
    patient = sys.stdout
    process.take_every_word()
    assert sys.stdout is patient  # once is enough
    print(text, end="", flush=True)
    assert os.read(reading, 99) == written
    os.close(reading)
    print("nobody reads this", flush=True)
    print("nor this", flush=True)
    os.close(writing)


def test_a_stream_of_a_test_or_a_notebook_is_left_alone(monkeypatch):
    own = io.StringIO()
    monkeypatch.setattr(sys, "stdout", own)
    process.take_every_word()
    assert sys.stdout is own


def test_a_closed_stream_takes_words(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    process.take_every_word()
    with sys.stdout:
        print("not read by anyone")
