"""A person's purchase in headless Chromium, from search to score, at the widths of a desktop and a phone."""

import os
import shutil
import threading
import time

import pytest
import uvicorn

from tasks.webshop.catalogue import Catalogue
from tasks.webshop.generator.generate import products, tables
from tasks.webshop.server import create_app
from tasks.webshop.settings import ServerSettings

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def shop():
    return Catalogue.in_memory(products(300, 0), *tables(300, 0))


@pytest.fixture(scope="module")
def address(shop):
    config = uvicorn.Config(create_app(shop, ServerSettings()), port=0, log_level="error", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_a_purchase_from_search_to_score(browser, address, shop, width):
    index = next(i for i in range(50) if len(shop.goal(i, "synthetic", "fixed").options) == 2)
    goal = shop.goal(index, "synthetic", "fixed")
    context = browser.new_context(viewport={"width": width, "height": 844}, java_script_enabled=False)
    page = context.new_page()
    problems = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("response", lambda response: problems.append(response.url) if response.status >= 400 else None)
    folder = os.environ.get("WEBSHOP_SCREENSHOTS")

    def look(name):
        assert page.locator("h1").count() == 1
        assert page.locator("#instruction-text").inner_text() == goal.instruction
        # Nothing is wider than the window, and what a finger must hit is large enough.
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for box in [element.bounding_box() for element in page.locator(".btn, .option").all()]:
            assert box["height"] >= 40
        if folder:
            page.screenshot(path=f"{folder}/{name}-{width}.png", full_page=True)

    page.goto(f"{address}/at{width}-fixed_{index}")
    look("index")
    page.get_by_label("What are you looking for?").fill(goal.instruction.split(", and price")[0])
    page.get_by_role("button", name="Search").click()
    look("results")
    assert page.locator(".card img").evaluate_all("images => images.every(image => image.naturalWidth > 0)")
    while page.get_by_role("link", name=goal.product.asin).count() == 0:
        page.get_by_role("link", name="Next >").click()
    page.get_by_role("link", name=goal.product.asin).click()
    look("item")
    for group, value in goal.options.items():
        page.get_by_role("group", name=group).get_by_role("link", name=value, exact=True).click()
    chosen = page.locator("[aria-current=true]").all_inner_texts()
    assert sorted(chosen) == sorted(goal.options.values())
    look("chosen")
    page.get_by_role("link", name="Features").click()
    assert goal.product.bullets[0] in page.locator("main").inner_text()
    look("features")
    page.get_by_role("link", name="< Prev").click()
    assert sorted(page.locator("[aria-current=true]").all_inner_texts()) == sorted(chosen)
    page.get_by_role("button", name="Buy Now").click()
    look("done")
    assert page.locator(".score").inner_text() == "1.0"
    assert problems == []
    context.close()


def test_the_shop_can_be_used_from_the_keyboard(browser, address):
    page = browser.new_context().new_page()
    page.goto(f"{address}/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Tab")
    page.keyboard.type("usb cables")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search_results/**")
    assert page.locator(".card").count() == 10
    page.context.close()
