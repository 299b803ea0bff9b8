# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The page in a real browser: it draws, filters, speaks, and can be read in light and dark."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

import fleet
import pytest
from ansible_collections.lossless.roce.plugins.plugin_utils.report.page import render
from ansible_collections.lossless.roce.plugins.plugin_utils.report.run import build_run
from ansible_collections.lossless.roce.plugins.plugin_utils.report.store import combined
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1400,1000",
)
WAIT_S = 60
WIDE, NARROW = 1400, 420

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed (Debian: chromium chromium-driver)"
)


class Page:
    """A report in the browser."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser

    def all(self, selector: str) -> list[WebElement]:
        """All elements that a CSS selector names."""
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        """The first of them."""
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def shown(self, selector: str) -> list[str]:
        """The text of those that are not hidden by the filter."""
        return t.cast(
            "list[str]",
            self.browser.execute_script(
                "return [...document.querySelectorAll(arguments[0])].filter((e) => !e.hidden)"
                ".map((e) => e.textContent.replace(/\\s+/g, ' ').trim())",
                selector,
            ),
        )

    def filter(self, verdict: str = "all", host: str = "", text: str = "") -> None:
        """Fill in the filter as a user does."""
        self.one("#filter button").click()
        self.until(lambda: not self.one("#matches").text)
        Select(self.one("#by-verdict")).select_by_visible_text(verdict)
        self.one("#by-host").send_keys(host)
        self.one("#by-text").send_keys(text)

    def until(self, condition: t.Callable[[], t.Any]) -> None:
        """Wait until it holds."""
        WebDriverWait(self.browser, WAIT_S).until(lambda _browser: condition())

    def errors(self) -> list[str]:
        """Errors on the console since the last call."""
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]

    def emulate(self, theme: str, width: int = WIDE) -> None:
        """Light or dark, and the width of the window."""
        feature = {"name": "prefers-color-scheme", "value": theme}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@pytest.fixture(scope="module", name="browser")
def _browser() -> t.Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # Both paths are given, so selenium looks for nothing in the network.
    browser = webdriver.Chrome(service=webdriver.ChromeService(str(DRIVER)), options=options)
    browser.set_page_load_timeout(WAIT_S)
    yield browser
    browser.quit()


def _write(folder: Path, findings: list[fleet.Finding], hosts: list[str], rounds: int) -> str:
    timing = fleet.timing(rounds)
    run = build_run("verify", findings, hosts, generated="2020-01-01T00:00:00Z", version="1.2.3", timing=timing)
    path = folder / "report.html"
    path.write_text(render(combined([run])), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module", name="small_url")
def _small_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    hosts = fleet.names(2)
    findings = [finding for host in hosts for finding in fleet.settings(host, 2, bad=host == "node2")]
    findings += [fleet.pair("node1", "node2", 0, 20.25), fleet.pair("node2", "node1", 0, 190)]
    findings += [fleet.pair("node1", "node2", 1, 191), fleet.pair("node2", "node1", 1, None)]
    return _write(tmp_path_factory.mktemp("small"), [*findings, fleet.incast("node1", ["node2"])], hosts, 1)


@pytest.fixture(scope="module", name="large_url")
def _large_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """512 nodes: all their settings, a ring on eight rails, and one rail with two thousandths of all pairs and more."""
    hosts = fleet.names(512)
    findings = [finding for host in hosts for finding in fleet.settings(host, 2, bad=host == "node77")]
    findings += fleet.ring(hosts, 8)
    for number, host in enumerate(hosts):
        findings += [fleet.pair(host, hosts[(number + step) % 512], 0, 190.5) for step in (2, 3, 5, 8, 13, 21)]
    findings += [fleet.pair("node300", host, 0, 20.5) for host in hosts[:200]]
    return _write(tmp_path_factory.mktemp("large"), findings, hosts, 511)


@pytest.fixture(name="small")
def _small(browser: webdriver.Chrome, small_url: str) -> Page:
    return _opened(browser, small_url)


@pytest.fixture(name="large")
def _large(browser: webdriver.Chrome, large_url: str) -> Page:
    return _opened(browser, large_url)


def _opened(browser: webdriver.Chrome, url: str) -> Page:
    page = Page(browser)
    page.emulate("light")
    page.errors()
    browser.get(url)
    return page


def test_a_small_report_draws_without_errors_and_loads_nothing(small: Page) -> None:
    assert small.browser.title == "FAIL – RoCE report"
    headings = [heading.text for heading in small.all("h3")]
    assert headings[:5] == [
        "Hosts and checks",
        "What did not pass",
        "Bandwidth (ib_write_bw)",
        "Time of the rounds",
        "Incast: many senders to one port",
    ]
    assert "ago)" in small.one("time").text
    assert small.browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert small.errors() == []


def test_filters_narrow_the_tables(small: Page) -> None:
    grid, problems, incast = ".grid tbody tr", ".problems tbody tr", ".incast tbody tr"
    assert [len(small.shown(rows)) for rows in (grid, problems, incast)] == [2, 4, 1]
    small.filter(verdict="unknown")
    assert ["iommu" in row for row in small.shown(problems)] == [True]
    assert small.shown(grid) == small.shown(incast) == []
    small.filter(host="NODE1")
    assert [len(small.shown(rows)) for rows in (grid, problems, incast)] == [1, 1, 1]
    small.filter(text="does not run what")
    assert ["pfc" in row for row in small.shown(problems)] == [True]
    assert small.one("#matches").text.startswith("1 of ")
    small.filter()
    assert [len(small.shown(rows)) for rows in (grid, problems, incast)] == [2, 4, 1]
    assert small.errors() == []


def test_the_host_filter_dims_the_other_pairs(large: Page) -> None:
    bare = _pixel(large, 0, 1)
    large.filter(host="node300")
    large.until(lambda: _pixel(large, 0, 1) != bare)
    assert _pixel(large, 0, 299) == _colour(large, "--fail")
    large.filter()
    large.until(lambda: _pixel(large, 0, 1) == bare)


def test_a_cell_of_a_table_tells_its_pair_to_mouse_and_keyboard(small: Page) -> None:
    cell, readout = small.one(".heat td.bad"), small.one(".readout")
    webdriver.ActionChains(small.browser).move_to_element(cell).perform()
    assert readout.text == cell.get_attribute("title") == "client node1, server node2: 20.2 Gb/s, fail"
    first = small.one(".heat td[tabindex='0']")
    small.browser.execute_script("arguments[0].focus()", first)
    assert readout.text == "client node2, server node1: 190 Gb/s, pass"
    # Down and left is node1 to node2; on the way is a node with itself, where there is nothing to measure.
    small.browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert readout.text == "client node2, server node1: 190 Gb/s, pass"
    assert "nothing measured" in small.browser.execute_script(
        "const c = document.querySelectorAll('.heat')[1].querySelector('td.bad'); c.focus(); return c.title"
    )
    assert small.errors() == []


CELL = """
const map = document.querySelector("canvas.map"), side = 2;
const data = JSON.parse(map.nextElementSibling.textContent), [row, column] = arguments;
const top = map.offsetHeight - 8 - data.servers.length * side, left = map.offsetWidth - 8 - data.clients.length * side;
"""


def _pixel(page: Page, row: int, column: int) -> list[int]:
    """Colour of a cell as red, green, blue."""
    script = "const at = map.getContext('2d').getImageData(left + column * side, top + row * side, 1, 1).data;"
    script += "return [...at.slice(0, 3)].map((part) => Math.round(part * at[3] / 255)).concat(at[3]);"
    return t.cast("list[int]", page.browser.execute_script(CELL + script, row, column))


def _colour(page: Page, name: str) -> list[int]:
    script = "return getComputedStyle(document.documentElement).getPropertyValue(arguments[0]).trim()"
    text = page.browser.execute_script(script, name)
    return [*bytes.fromhex(text.removeprefix("#")), 255]


def test_512_nodes_draw_without_errors_on_a_page_that_stays_small(large: Page, large_url: str) -> None:
    large.until(lambda: _pixel(large, 0, 299)[3])
    assert _pixel(large, 0, 299) == _pixel(large, 199, 299) == _colour(large, "--fail")
    assert _pixel(large, 1, 0) == _colour(large, "--s4")
    assert _pixel(large, 0, 0) == _colour(large, "--head")
    assert [len(large.all(rows)) for rows in (".grid tbody tr", ".problems tbody tr", ".node")] == [3, 3, 2]
    assert Path(large_url.removeprefix("file://")).stat().st_size < 400_000
    assert large.errors() == []


def test_a_cell_of_a_large_map_tells_its_pair_to_mouse_and_keyboard(large: Page) -> None:
    canvas, readout = large.one("canvas.map"), large.one(".readout")
    large.until(lambda: _pixel(large, 0, 299)[3])
    script = "map.scrollIntoView({block: 'center'}); const box = map.getBoundingClientRect();"
    script += (
        "map.dispatchEvent(new MouseEvent('mousemove', {bubbles: true, clientX: box.left + left + column * side + 1,"
    )
    script += " clientY: box.top + top + row * side + 1}));"
    large.browser.execute_script(CELL + script, 7, 299)
    assert readout.text == canvas.get_attribute("title") == "client node300, server node8: 20.5 Gb/s, fail"
    large.browser.execute_script("arguments[0].dispatchEvent(new MouseEvent('mouseleave'))", canvas)
    assert readout.text.startswith("Point at a cell")
    large.browser.execute_script("arguments[0].focus()", canvas)
    assert readout.text == "client node1, server node1: not tested"
    canvas.send_keys(Keys.ARROW_RIGHT)
    assert readout.text.startswith("client node2, server node1: ")
    canvas.send_keys(Keys.SHIFT, Keys.ARROW_DOWN)
    assert readout.text.startswith("client node2, server node11: ")
    assert large.errors() == []


# Every piece of text that is shown, with the contrast of WCAG 2 against what lies behind it.
CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const rgba = (text) => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const linear = (part) => part / 255 <= .04045 ? part / 255 / 12.92 : ((part / 255 + .055) / 1.055) ** 2.4;
const light = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = rgba(getComputedStyle(at).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255, 255];
};
document.querySelectorAll("details").forEach((details) => { details.open = true; });
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || !element.getClientRects().length) continue;
  const style = getComputedStyle(element), size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  const [a, b] = [light(rgba(style.color)), light(behind(element))].sort((x, y) => y - x);
  const what = `${element.tagName}.${element.className}: ${element.textContent.trim().slice(0, 40)}`;
  found.push([(a + .05) / (b + .05), large ? 3 : 4.5, what]);
}
return found;
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["small", "large"])
def test_all_text_stands_out_from_what_is_behind_it(request: pytest.FixtureRequest, size: str, theme: str) -> None:
    page: Page = request.getfixturevalue(size)
    page.emulate(theme)
    found = page.browser.execute_script(CONTRAST)
    assert len(found) > 100
    assert any("simulated" in text for _ratio, _least, text in found) == (size == "small")
    assert [row for row in found if row[0] < row[1]] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_large_map_follows_light_and_dark(large: Page, theme: str) -> None:
    large.emulate(theme)
    large.until(lambda: _pixel(large, 0, 299) == _colour(large, "--fail"))
    large.until(lambda: _pixel(large, 1, 0) == _colour(large, "--s4"))


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_narrow_window_scrolls_tables_and_not_the_page(request: pytest.FixtureRequest, size: str) -> None:
    page: Page = request.getfixturevalue(size)
    page.emulate("light", NARROW)
    page.until(lambda: page.browser.execute_script("return innerWidth") == NARROW)
    assert page.browser.execute_script("return document.documentElement.scrollWidth") <= NARROW
    box = page.browser.execute_script(
        "const b = document.querySelector('.problems dd.remedy').getBoundingClientRect(); return [b.left, b.right]"
    )
    assert 0 <= box[0] < box[1] <= NARROW
