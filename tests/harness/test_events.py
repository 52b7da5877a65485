import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InfrastructureError, RequestError
from harness.events import EventLog, read_events


def make(path, count=5):
    log = EventLog(path, clock=lambda: 1.5)
    for i in range(count):
        log.append("finished", member=i, fitness=0.1 * i)
    log.close()


def test_events_come_back_as_written_in_order(tmp_path):
    make(tmp_path / "events.jsonl")
    events = read_events(tmp_path / "events.jsonl")
    assert [(e["n"], e["t"], e["kind"], e["member"], e["fitness"]) for e in events] == [
        (i, 1.5, "finished", i, 0.1 * i) for i in range(5)
    ]


@given(cut=st.integers(0, 400))
def test_a_log_cut_anywhere_opens_with_its_whole_events_and_goes_on(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    make(path)
    data = path.read_bytes()
    cut = min(cut, len(data))
    path.write_bytes(data[:cut])
    whole = data[:cut].count(b"\n")
    log = EventLog(path)
    assert len(log.events) == whole
    assert log.dropped_bytes == cut - (data[:cut].rfind(b"\n") + 1)
    log.append("resumed", dropped_bytes=log.dropped_bytes)
    log.close()
    assert [event["n"] for event in read_events(path)] == list(range(whole + 1))


def test_damage_in_the_middle_is_named_by_file_and_line(tmp_path):
    path = tmp_path / "events.jsonl"
    make(path)
    lines = path.read_bytes().split(b"\n")
    lines[2] = b"{broken"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(RequestError, match=r"events\.jsonl: line 3"):
        EventLog(path)


def test_a_missing_event_is_noticed(tmp_path):
    path = tmp_path / "events.jsonl"
    make(path)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[:1] + lines[2:]))
    with pytest.raises(RequestError, match="expected event number 1"):
        read_events(path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_an_infrastructure_error_that_says_how_to_go_on(tmp_path):
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    log = EventLog.__new__(EventLog)
    log.path, log.events, log.dropped_bytes = tmp_path / "events.jsonl", [], 0
    log._clock, log._listen = (lambda: 0.0), (lambda event: None)
    log._file = open("/dev/full", "ab", buffering=0)  # noqa: SIM115
    with pytest.raises(InfrastructureError, match="--resume"):
        log.append("finished", member=1)
    assert log.events == []
