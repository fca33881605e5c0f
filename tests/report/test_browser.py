"""The page in a real browser, from a file address: no error, filters and sorting work, it fits a phone."""

import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from repro.report import page
from tests.evidence.synthetic_records import make_record, write

pytestmark = pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver")),
    reason="chromium and chromedriver are not installed",
)
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--host-resolver-rules=MAP * ~NOTFOUND")  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    for i, task in enumerate(("pong", "alien", "amidar", "assault", "asterix")):
        for seed in (1, 2, 3):
            write(root, make_record(seed, task, final=100.0 * i + seed))
    for seed in range(1, 6):
        write(root, make_record(seed, "beam_rider", final=9000.0, scale="paper"))
    return page.write_report(tmp_path_factory.mktemp("report"), root).as_uri()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*QUIET, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium, address):
    chromium.set_window_size(1300, 900)
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.get(address)
    yield chromium
    assert chromium.get_log("browser") == []


def _shown(browser):
    rows = browser.find_elements(By.CSS_SELECTOR, "#impala-rows tbody tr")
    return [row for row in rows if row.is_displayed()]


def _tasks(browser):
    return [row.find_element(By.TAG_NAME, "th").text for row in _shown(browser)]


def _filters(browser):
    form = browser.find_element(By.CSS_SELECTOR, "form.filters[data-for=impala-rows]")
    return form.find_element(By.NAME, "text"), Select(form.find_element(By.NAME, "verdict")), form


def test_an_error_would_be_seen(chromium, address):
    chromium.get(address)
    chromium.execute_script("setTimeout(() => { throw new Error('planted'); }, 0)")
    chromium.execute_async_script("setTimeout(arguments[0], 50)")
    assert "planted" in chromium.get_log("browser")[0]["message"]


def test_page_opens_on_the_rows_with_a_result(browser):
    assert sorted(_tasks(browser)) == ["alien", "amidar", "assault", "asterix", "beam_rider", "pong"]
    assert "6 of" in _filters(browser)[2].find_element(By.TAG_NAME, "output").text


def test_filters_by_verdict_and_words(browser):
    words, verdict, _ = _filters(browser)
    verdict.select_by_visible_text("reproduced")
    assert _tasks(browser) == ["beam_rider"]
    verdict.select_by_visible_text("all rows")
    everything = len(_shown(browser))
    words.send_keys("PONG deep")
    assert set(_tasks(browser)) == {"pong"}
    assert len(_shown(browser)) < everything
    words.clear()
    words.send_keys("no such game", Keys.ENTER)  # and the page does not reload
    assert _shown(browser) == []


def test_columns_sort_both_ways_with_the_keyboard_too(browser):
    header = browser.find_elements(By.CSS_SELECTOR, "#impala-rows thead th")[3]
    header.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert header.get_attribute("aria-sort") == "ascending"
    assert _tasks(browser)[0] == "pong"
    header.find_element(By.TAG_NAME, "button").send_keys(Keys.SPACE)
    assert header.get_attribute("aria-sort") == "descending"
    assert _tasks(browser)[0] == "beam_rider"


def test_command_is_copied(browser):
    browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite"]})
    button = _shown(browser)[0].find_element(By.CSS_SELECTOR, ".copy")
    button.click()
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert button.text == "Copied"


def test_a_result_links_to_what_was_measured(browser):
    link = _shown(browser)[0].find_element(By.TAG_NAME, "a")
    link.click()
    card = browser.find_element(By.ID, browser.current_url.split("#")[1])
    top = browser.execute_script("return arguments[0].getBoundingClientRect().top", card)
    assert 0 <= top < 900


def test_charts_are_drawn_inside_their_boxes(browser):
    outside = browser.execute_script(
        """return [...document.querySelectorAll('svg')].filter((svg) => {
             const box = svg.viewBox.baseVal, inner = svg.getBBox();
             return inner.x < -1 || inner.y < -1 || inner.x + inner.width > box.width + 1
                 || inner.y + inner.height > box.height + 1 || !inner.width;
           }).map((svg) => svg.getAttribute('aria-label'))"""
    )
    assert outside == []
    assert len(browser.find_elements(By.CSS_SELECTOR, "svg")) == 6 + 2  # curves; bars and profile


def test_phone_needs_no_sideways_scrolling(browser):
    size = {"width": 375, "height": 700, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 375
    small = browser.execute_script(
        "return [...document.querySelectorAll('.copy')].filter((b) => b.offsetParent && b.offsetHeight < 36).length"
    )
    assert small == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark(browser, scheme):
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    worst = browser.execute_script(
        """const light = (c) => {
             const v = c.match(/[\\d.]+/g).slice(0, 3).map((x) => x / 255);
             const [r, g, b] = v.map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
             return 0.2126 * r + 0.7152 * g + 0.0722 * b;
           };
           const ground = (e) => {
             for (; e; e = e.parentElement) {
               const c = getComputedStyle(e).backgroundColor;
               if (c !== 'rgba(0, 0, 0, 0)') return c;
             }
           };
           let worst = 21;
           for (const e of document.querySelectorAll('p,th,td,small,a,.verdict,summary,h1,h2,h3,h4,button')) {
             if (!e.offsetParent || !e.textContent.trim()) continue;
             const [x, y] = [light(getComputedStyle(e).color), light(ground(e))].sort((a, b) => b - a);
             worst = Math.min(worst, (x + 0.05) / (y + 0.05));
           }
           return worst"""
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert worst >= 4.5  # WCAG 2.2, 1.4.3
