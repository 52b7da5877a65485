"""The server: pages, API, bounds, isolation, expiry, and the client against the environment in process."""

import asyncio
import gc
import html
import json
import re
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.interfaces import Action
from tasks.webshop import client
from tasks.webshop.catalogue import Catalogue
from tasks.webshop.environment import WebShopEnvironment
from tasks.webshop.generator.generate import products, tables
from tasks.webshop.server import create_app
from tasks.webshop.session import Session, SessionSettings, parse_action
from tasks.webshop.settings import ServerSettings
from tasks.webshop.store import SessionStore
from tasks.webshop.task import TaskList

BASE = "http://localhost:3000"


@pytest.fixture(scope="module")
def shop():
    return Catalogue.in_memory(products(300, 0), *tables(300, 0))


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def talk(shop, conversation, clock=None, **settings):
    """Run ``conversation(client)`` against an application of its own."""
    app = create_app(shop, ServerSettings(**settings), clock or Clock())

    async def run():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, follow_redirects=True) as http:
            return await conversation(http)

    return asyncio.run(run())


def links(response, pattern):
    return [html.unescape(link) for link in re.findall(rf'(?:href|action)="({pattern})"', response.text)]


def test_a_person_shops_from_search_to_score(shop):
    goal = shop.goal(0, "synthetic", "fixed")

    async def conversation(http):
        index = await http.get("/fixed_0")
        assert goal.instruction in html.unescape(index.text)
        words = goal.instruction.split(", and price")[0]
        results = await http.post("/fixed_0", data={"search_query": words})
        assert results.url.path.startswith("/search_results/fixed_0/")
        while not (found := links(results, f'/item_page/fixed_0/{goal.product.asin}/[^"]*')):
            (following,) = re.findall(r'rel="next" href="([^"]*)"', results.text)
            results = await http.get(html.unescape(following))
        item = await http.get(found[0])
        for value in goal.options.values():
            (choose,) = [
                html.unescape(link)
                for link, text in re.findall(r'class="option" href="([^"]*)">([^<]*)<', item.text)
                if html.unescape(text) == value
            ]
            item = await http.get(choose)
            assert f'aria-current="true">{html.escape(value)}</a>' in item.text
        features = await http.get(links(item, '/item_sub_page/[^"]*/Features/[^"]*')[0])
        assert html.escape(goal.product.bullets[0]) in features.text
        back = await http.get(links(features, '/item_page/[^"]*')[0])
        assert 'aria-current="true"' in back.text
        for page in (index, results, item, features):
            assert "score" not in page.text.lower()
            assert not any("score" in value or "reward" in value for value in page.headers.values())
        done = await http.post(links(back, '/done/[^"]*')[0])
        assert '<p class="score">1.0</p>' in done.text
        again = await http.get(links(results, '/item_page/[^"]*')[0])
        assert '<p class="score">1.0</p>' in again.text

    talk(shop, conversation)


def test_the_originals_addresses_are_understood(shop):
    product = shop.goal(0, "synthetic", "fixed").product
    options = {group: values[0] for group, values in product.options.items()}

    async def conversation(http):
        await http.get("/fixed_0")
        pages = [
            await http.get("/search_results/fixed_0/['usb', 'cables']/1"),
            await http.get(f"/item_page/fixed_0/{product.asin}/['usb', 'cables']/1/{options!r}"),
            await http.get(f"/item_sub_page/fixed_0/{product.asin}/['usb']/1/Description/{options!r}"),
            await http.get(f"/done/fixed_0/{product.asin}/{options!r}"),
        ]
        assert [page.status_code for page in pages] == [200] * 4
        assert "Page 1 (Total results: 50)" in pages[0].text or "Total results" in pages[0].text
        assert "Thank you for shopping with us!" in pages[3].text

    talk(shop, conversation)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/search_results/nobody/tea/1", 404),
        ("/item_page/nobody/B0A2A2/tea/1/{}", 404),
        ("/item_page/fixed_0/NOTHING/tea/1/{}", 404),
        ("/item_page/fixed_0/ASIN/tea/1/{'color': 'no such'}", 400),
        ("/item_page/fixed_0/ASIN/tea/1/__import__('os').getcwd()", 400),
        ("/item_page/fixed_0/ASIN/tea/1/" + "[" * 5000, 400),
        ("/item_page/fixed_0/ASIN/tea/1/" + "-" * 9000, 400),
        ("/item_page/fixed_0/ASIN/tea/one/{}", 400),
        ("/item_sub_page/fixed_0/ASIN/tea/1/Secrets/{}", 404),
        ("/search_results/fixed_0/tea/0", 400),
        ("/search_results/fixed_0/tea/²", 400),
        ("/search_results/fixed_0/" + "x" * 10_000 + "/1", 400),
        ("/fixed_999999", 404),
        ("/a.b", 404),
        ("/static/../server.py", 404),
        ("/picture/..%2f..%2fetc%2fpasswd.svg", 404),
        ("/static/%2e%2e/server.py", 404),
        ("/%ff%fe", 400),
    ],
)
def test_a_bad_address_is_a_clear_error_and_the_server_goes_on(shop, path, status):
    path = path.replace("ASIN", shop.goal(0, "synthetic", "fixed").product.asin)

    async def conversation(http):
        await http.get("/fixed_0")
        assert (await http.get(path)).status_code == status
        assert (await http.get("/fixed_0")).status_code == 200

    talk(shop, conversation)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"\xff\xfe", 400, "byte 0 is not UTF-8"),
        (b"{", 400, "not valid JSON"),
        (b"[" * 60_000, 400, "not valid JSON"),
        (b'"text"', 422, "body"),
        (b"{}", 422, "action: Field required"),
        (b'{"action": 3}', 422, "action"),
        (json.dumps({"action": f"search[{'x' * 10_000}]"}).encode(), 422, "at most 2100 characters"),
        (b" " * 70_000, 413, "65536 bytes at most"),
    ],
)
def test_a_bad_step_is_a_clear_error_and_the_session_goes_on(shop, body, status, said):
    async def conversation(http):
        key = (await http.post("/api/sessions", json={"goal": 1})).json()["session"]
        refused = await http.post(f"/api/sessions/{key}/step", content=body)
        assert refused.status_code == status
        assert said in refused.json()["error"]
        assert (
            await http.post(f"/api/sessions/{key}/step", json={"action": "search[tea]"})
        ).status_code == 200

    talk(shop, conversation)


@pytest.mark.parametrize(
    "wanted", [{"goal": 10**6}, {"goal": -1}, {"goal": "1"}, {"seed": 2**64}, {"extra": 1}]
)
def test_a_bad_new_session_is_refused(shop, wanted):
    async def conversation(http):
        response = await http.post("/api/sessions", json=wanted)
        assert response.status_code == 422
        assert (await http.get("/api/health")).json()["sessions"] == 0

    talk(shop, conversation)


def test_an_unknown_or_closed_session_is_not_found(shop):
    async def conversation(http):
        key = (await http.post("/api/sessions")).json()["session"]
        assert (await http.get(f"/api/sessions/{key}")).status_code == 200
        assert (await http.delete(f"/api/sessions/{key}")).status_code == 204
        for response in (
            await http.get(f"/api/sessions/{key}"),
            await http.delete(f"/api/sessions/{key}"),
            await http.post(f"/api/sessions/{key}/step", json={"action": "search[tea]"}),
        ):
            assert response.status_code == 404
            assert "no such session" in response.json()["error"]

    talk(shop, conversation)


def test_idle_sessions_expire_and_used_ones_do_not(shop):
    clock = Clock()

    async def conversation(http):
        idle, used = [(await http.post("/api/sessions")).json()["session"] for _ in range(2)]
        clock.now = 50
        assert (await http.get(f"/api/sessions/{used}")).status_code == 200
        clock.now = 101
        assert (await http.get(f"/api/sessions/{idle}")).status_code == 404
        assert (await http.get(f"/api/sessions/{used}")).status_code == 200

    talk(shop, conversation, clock, session_ttl_s=100)


def test_sessions_are_bounded_in_number(shop):
    clock = Clock()

    async def conversation(http):
        for _ in range(3):
            assert (await http.post("/api/sessions")).status_code == 201
        assert (await http.post("/api/sessions")).status_code == 503
        assert (await http.get("/somebody")).status_code == 503
        clock.now = 10**6
        assert (await http.post("/api/sessions")).status_code == 201

    talk(shop, conversation, clock, session_limit=3)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:3000", 200),
        ("[::1]:3000", 200),
        ("evil.example", 400),
        ("localhost.evil.example", 400),
        ("", 400),
        ("shop.example", 200),
    ],
)
def test_the_host_must_be_one_of_the_servers(shop, host, status):
    async def conversation(http):
        assert (await http.get("/api/health", headers={"host": host})).status_code == status

    talk(shop, conversation, hosts=("localhost", "127.0.0.1", "[::1]", "shop.example"))


def test_everything_printed_is_escaped():
    record = {
        "name": "<script>alert(1)</script>",
        "full_description": "<img src=x onerror=alert(2)>",
        "pricing": "$5.00",
        "images": ["a"],
        "product_category": "A › B",
        "small_description": ["</li><b>"],
        "customization_options": {'"><i>': [{"value": "'\"><u>"}]},
        "asin": '"><x>',
        "category": "beauty",
        "query": "q",
    }
    attributes = {'"><x>': {"attributes": ["a"], "instruction": "<h1>", "instruction_attributes": ["a"]}}
    shop = Catalogue.in_memory([record], attributes)

    async def conversation(http):
        pages = [await http.get("/fixed_0"), await http.post("/fixed_0", data={"search_query": "script"})]
        pages.append(await http.get(links(pages[-1], '/item_page/[^"]*')[0]))
        pages.append(await http.get(links(pages[-1], '/item_page/[^"]*')[0]))
        pages.append(await http.get(links(pages[-1], '/item_sub_page/[^"]*')[0]))
        pages.append(await http.post(links(pages[3], '/done/[^"]*')[0]))
        for page in pages:
            assert page.status_code == 200
            for tag in ("<script>", "<img src=x", "<i>", "<u>", "<x>", "<h1><", "<b>"):
                assert tag not in page.text
            assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert 'aria-current="true"' in pages[3].text

    talk(shop, conversation)


def test_many_sessions_at_once_keep_to_their_goals(shop):
    count = shop.goal_count("synthetic")

    async def conversation(http):
        async def one(number):
            index = number * 7 % count
            goal = shop.goal(index, "synthetic", "fixed")
            opened = (await http.post("/api/sessions", json={"goal": index})).json()
            for action in ("search[cables]", "click[back to search]", f"search[{goal.product.query}]"):
                state = (
                    await http.post(f"/api/sessions/{opened['session']}/step", json={"action": action})
                ).json()
                assert goal.instruction in state["observation"]
                await asyncio.sleep(0)
            clicked = state["available"]["clickables"][-1]
            for action in (f"click[{clicked}]", "click[buy now]"):
                state = (
                    await http.post(f"/api/sessions/{opened['session']}/step", json={"action": action})
                ).json()
            assert state["done"]
            assert state["info"]["asin"] == clicked.upper()

        await asyncio.gather(*(one(number) for number in range(64)))

    talk(shop, conversation)


@pytest.mark.parametrize("mode", ["text", "text_rich", "brief"])
@pytest.mark.parametrize("compat", ["fixed", "original"])
def test_the_client_sees_what_the_environment_in_process_does(shop, mode, compat, monkeypatch):
    app = create_app(shop, ServerSettings(compat=compat, results_per_page=4))
    settings = SessionSettings(mode, compat, per_page=4)

    async def run():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=BASE) as http:

            async def call(self, method, path, body=None):
                response = await http.request(method, path, json=body)
                assert response.status_code < 400, response.text
                return response.json() if response.content else None

            monkeypatch.setattr(client.WebShopClientEnvironment, "_call", call)
            over_http = client.WebShopClientEnvironment(BASE, settings)
            in_process = WebShopEnvironment(shop, settings)
            for task in TaskList(shop, "heldout", "synthetic", compat)[:8]:
                assert await over_http.reset(task, 5) == await in_process.reset(task, 5)
                product = task.goal.product
                for action in (
                    Action("invalid", "hm"),
                    Action("search", "<r>" if compat == "original" else "<R> x"),
                    Action("search", f"{product.title} {' '.join(task.goal.attributes)}"),
                    Action("click", product.asin),
                    *(Action("click", value) for value in dict(task.goal.options).values()),
                    Action("click", "buy now"),
                ):
                    assert await over_http.step(action) == await in_process.step(action)
                assert await over_http.truncate() == await in_process.truncate()
            await over_http.close()
            assert (await http.get("/api/health")).json()["sessions"] == 0

    asyncio.run(run())


@pytest.mark.slow
def test_a_hundred_thousand_sessions_leave_nothing_behind(shop):
    clock = Clock()
    store = SessionStore(1000, 60, clock)
    goal = shop.goal(0, "synthetic", "fixed")
    settings = SessionSettings()

    def open_and_drop(count):
        for number in range(count):
            key = store.new_key()
            store.add(key, Session(shop, goal, settings, key))
            store.get(key).act(parse_action("search[usb cables]"))
            store.get(key).observation()
            if number % 2:
                store.drop(key)
            else:
                clock.now += 100
        clock.now += 100

    def living():
        assert len(store) == 0
        gc.collect()
        return len(gc.get_objects())

    open_and_drop(1000)
    before = living()
    open_and_drop(100_000)
    assert living() < before + 100


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(
        ["search_results", "item_page", "item_sub_page", "done", "picture", "api/sessions", "static", ""]
    ),
    st.lists(
        st.one_of(st.text(max_size=30), st.sampled_from(["fixed_0", "ASIN", "tea", "1", "{}", "['a']"])),
        max_size=6,
    ),
)
def test_any_address_is_answered_without_a_fault(shop, first, rest):
    asin = shop.goal(0, "synthetic", "fixed").product.asin
    segments = [quote(segment.replace("ASIN", asin).encode("utf-8", "replace"), safe="") for segment in rest]

    async def conversation(http):
        await http.get("/fixed_0")
        response = await http.get(BASE + "/".join(["", first, *segments]))
        assert response.status_code < 500
        assert (await http.get("/fixed_0")).status_code == 200

    talk(shop, conversation)
