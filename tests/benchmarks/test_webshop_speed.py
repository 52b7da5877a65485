"""The shop's speed and memory: in process, over HTTP, and with 1,181,436 products (set WEBSHOP_SCALE=1: many minutes)."""

import asyncio
import contextlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

from tasks.webshop.catalogue import Catalogue, write
from tasks.webshop.generator.generate import (
    ATTRIBUTES_FILE,
    HUMAN_FILE,
    PRODUCTS_FILE,
    products,
    tables,
    write_files,
)
from tasks.webshop.reading import read_instructions, read_products, read_table
from tasks.webshop.session import Session, SessionSettings, parse_action

pytestmark = pytest.mark.benchmark

FULL_SIZE = 1_181_436
SCALE = int(os.environ.get("WEBSHOP_SCALE", 0))
"""1: the full size; a larger number: so many products."""


def walk(catalogue, episodes, mode, compat, source="synthetic", seed=0):
    """Episodes of search, pages, items, options and purchase as an agent plays them, every observation read. Steps taken."""
    draw = random.Random(seed)
    settings = SessionSettings(mode, compat)
    steps = 0
    for number in range(episodes):
        goal = catalogue.goal(draw.randrange(catalogue.goal_count(source)), source, compat)
        session = Session(catalogue, goal, settings, str(number))
        session.observation()
        actions = [f"search[{goal.instruction.split(', and price')[0]}]"]
        while actions:
            outcome = session.act(parse_action(actions.pop(0)))
            session.observation()
            session.admissible()
            steps += 1
            kind = session.page.view.kind
            if outcome.done:
                break
            if not actions and kind == "results":
                shown = [f"click[{product.asin}]" for product in session.page.products]
                actions = [
                    draw.choice([*shown, "click[next >]"] if "next >" in session.page.clickables else shown)
                ]
            elif not actions:
                options = [f"click[{node.text}]" for node in session.page.nodes if node.kind == "option"]
                actions = [
                    *draw.sample(options, min(2, len(options))),
                    "click[features]",
                    "click[< prev]",
                    "click[buy now]",
                ]
    return steps


def test_in_process(capsys):
    catalogue = Catalogue.in_memory(products(1000, 0), *tables(1000, 0))
    with capsys.disabled():
        print("\nwebshop in process, 1,000 products, steps/s of one core   (bar: 4,000 in text mode)")
        for mode in ("text", "text_rich", "brief", "html"):
            for compat in ("original", "fixed"):
                walk(catalogue, 100, mode, compat, seed=1)
                started = time.process_time()
                steps = walk(catalogue, 150 if mode == "html" else 800, mode, compat)
                rate = steps / (time.process_time() - started)
                print(f"  {mode:10s} {compat:9s} {rate:8.0f}")
                if mode == "text":
                    assert rate > 4000


READY = """
import json, sys, time
def rss():
    return next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith('VmRSS')) / 1024
bare = rss()
from tasks.webshop.catalogue import Catalogue
from tasks.webshop.session import Session, SessionSettings, parse_action
from pathlib import Path
started = time.perf_counter()
catalogue = Catalogue.open(Path(sys.argv[1]))
session = Session(catalogue, catalogue.goal(0, 'synthetic', 'original'), SessionSettings('text', 'original'))
session.act(parse_action('search[usb cables]')); session.observation()
ready = time.perf_counter() - started
sys.path.insert(0, sys.argv[2])
from test_webshop_speed import walk
walk(catalogue, 2000, 'text', 'original')
print(json.dumps([ready, rss() - bare]))
"""


def test_ready_and_memory(capsys, tmp_path):
    write(tmp_path / "shop", products(1000, 0), *tables(1000, 0))
    code = READY.replace("from test_webshop_speed import walk\n", "import importlib.util\n" + LOAD_WALK)
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "shop"), str(Path(__file__))],
        capture_output=True,
        text=True,
        check=True,
    )
    ready, megabytes = json.loads(run.stdout)
    with capsys.disabled():
        print(f"\nwebshop: first observation of a search {ready:.3f} s after import   (bar: 0.2)")
        print(f"  memory above the interpreter after 2,000 episodes {megabytes:.0f} MB   (bar: 80)")
    assert ready < 0.2
    assert megabytes < 80


LOAD_WALK = """
source = open(sys.argv[2]).read()
namespace = {}
exec('import random\\nfrom tasks.webshop.session import *\\n' + source[source.index('def walk('):source.index('def test_in_process')], namespace)
walk = namespace['walk']
"""


@contextlib.contextmanager
def served():
    """A server process; its port and id."""
    code = (
        "import sys, uvicorn\n"
        "from tasks.webshop.server import create_app\n"
        "from tasks.webshop.settings import ServerSettings\n"
        "from tasks.webshop.shop import open_catalogue\n"
        "uvicorn.run(create_app(open_catalogue('generated', 1000, 0), ServerSettings()), port=int(sys.argv[1]), log_level='error',"
        " access_log=False)"
    )
    port = 20_000 + os.getpid() % 20_000
    process = subprocess.Popen([sys.executable, "-c", code, str(port)])
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health").read()
                break
            time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_s(pid):
    """User and system seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    """As little HTTP as will do, so that the client does not hide the server."""

    async def open(self, port):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)

    async def call(self, method, path, body):
        data = json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n\r\n"
        self.writer.write(head.encode() + data)
        status = int((await self.reader.readline()).split()[1])
        length = 0
        while (line := await self.reader.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        content = await self.reader.readexactly(length)
        assert status < 400, content
        return json.loads(content) if content else None


async def _load(port, clients, seconds):
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def one(number):
        http = Client()
        await http.open(port)
        draw = random.Random(number)
        while time.perf_counter() < end:
            state = await http.call("POST", "/api/sessions", {"goal": draw.randrange(2000)})
            key, instruction = state["session"], state["instruction"]
            action = f"search[{instruction.split(', and price')[0]}]"
            for _ in range(8):
                began = time.perf_counter()
                state = await http.call("POST", f"/api/sessions/{key}/step", {"action": action})
                times.append(time.perf_counter() - began)
                assert not state["invalid"]
                if state["done"]:
                    break
                assert instruction in state["observation"]
                clicks = [action for action in state["admissible"] if not action.startswith("search")]
                action = draw.choice(clicks or ["search[usb cables]"])
            await http.call("DELETE", f"/api/sessions/{key}", {})
        http.writer.close()

    await asyncio.gather(*(one(number) for number in range(clients)))
    return times


def test_over_http(capsys):
    seconds = float(os.environ.get("WEBSHOP_LOAD_S", "10"))
    with served() as (port, pid):
        asyncio.run(_load(port, 8, 1))
        before = cpu_s(pid)
        times = asyncio.run(_load(port, 64, seconds))
        used = cpu_s(pid) - before
    p50, p99 = (statistics.quantiles(times, n=100)[i] * 1000 for i in (49, 98))
    with capsys.disabled():
        print(
            f"\nwebshop over HTTP, one worker, 64 sessions at once, {seconds:g} s, no error, every session on its goal"
        )
        print(f"  {used / len(times) * 1000:.2f} ms of the server's CPU a step")
        print(
            f"  {len(times) / seconds:.0f} steps/s   (bar: 1,000)   p50 {p50:.1f} ms, p99 {p99:.1f} ms   (bar: 100)"
        )


SHARING = """
import re, sys
from pathlib import Path
from tasks.webshop.catalogue import Catalogue
catalogue = Catalogue.open(Path(sys.argv[1]))
for index in range(100):
    catalogue.search(catalogue.goal(index, 'synthetic', 'fixed').instruction)
print('ready', flush=True)
sys.stdin.readline()
rollup = Path('/proc/self/smaps_rollup').read_text()
print(*(int(re.search(rf'^{name}:\\s+(\\d+)', rollup, re.M)[1]) / 1024 for name in ('Rss', 'Pss', 'Anonymous')), flush=True)
"""


def memory_of_two(shop):
    """MB of mapped files that two processes share, and that each has of its own."""
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    pair = [subprocess.Popen([sys.executable, "-c", SHARING, str(shop)], **pipe) for _ in range(2)]
    for process in pair:
        assert process.stdout.readline() == "ready\n"
    figures = [[float(x) for x in process.communicate("\n")[0].split()] for process in pair[:1]]
    pair[1].communicate("\n")
    rss, _, own = figures[0]
    return rss - own, own


@pytest.mark.skipif(not SCALE, reason="many minutes; set WEBSHOP_SCALE=1")
def test_the_full_size(capsys):
    count = FULL_SIZE if SCALE == 1 else SCALE
    with tempfile.TemporaryDirectory() as folder:
        shop = Path(folder) / "shop"
        started = time.perf_counter()
        files = Path(folder) / "files"
        write_files(files, count, 0)
        sources = [str(files / name) for name in (PRODUCTS_FILE, ATTRIBUTES_FILE, HUMAN_FILE)]
        write(shop, read_products(sources[0]), read_table(sources[1]), read_instructions(sources[2]))
        prepared = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        started = time.perf_counter()
        catalogue = Catalogue.open(shop)
        opened = time.perf_counter() - started
        times = []
        for index in range(100):
            words = catalogue.goal(index, "synthetic", "fixed").instruction.split(", and price")[0]
            started = time.perf_counter()
            catalogue.search(words)
            times.append(time.perf_counter() - started)
        shared, private = memory_of_two(shop)
    with capsys.disabled():
        print(
            f"\nwebshop, {count:,} generated products: generated and prepared in {prepared:.0f} s, peak {peak:.1f} GB   (bar: 6)"
        )
        print(
            f"  opened in {opened:.2f} s   (bar: 2), search p50 {statistics.median(times) * 1000:.1f} ms   (bar: 20)"
        )
        print(
            f"  two processes: each {private:.0f} MB of its own, {shared:.0f} MB of mapped files between them"
        )
