"""The page in a real browser, from a file address: no error, filters and sorting work, it fits a phone."""

import re
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from repro.report import page
from tests.evidence.synthetic_records import make_record, write
from tests.report.example_video import write_example
from tests.report.test_metaparameters import make_tuned

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
            record = make_record(seed, task, final=100.0 * i + seed)
            series = {"columns": ["num_env_frames", "seconds"], "rows": [[0, 0.0], [record["num_env_frames"], 7200.0]]}
            write(root, record | ({"series": series} if task == "pong" else {}))
    for seed in range(1, 6):
        write(root, make_record(seed, "beam_rider", final=9000.0, scale="paper"))
    write_example(root / "impala" / "atari_shallow" / "pong" / "impala_shallow")
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


PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}


def _displayed(browser, selector):
    """The displayed ones of many elements, which the page is asked for once."""
    script = """return [...document.querySelectorAll(arguments[0])].filter(
        (element) => element.checkVisibility({visibilityProperty: true, opacityProperty: true}))"""
    return browser.execute_script(script, selector)


def _shown(browser):
    return _displayed(browser, "#impala table.rows tbody tr")


def _tasks(browser):
    """Tasks of the rows shown, also of those far below, which have no `innerText` until the page is scrolled there."""
    return browser.execute_script(
        "return arguments[0].map((row) => row.querySelector('th').textContent.trim())", _shown(browser)
    )


def _filters(browser):
    form = browser.find_element(By.ID, "filters")
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
    assert _displayed(browser, "details.group") == []


def test_a_printed_number_is_found_and_rows_that_are_not_shown_are_counted(browser):
    words, verdict, form = _filters(browser)
    words.send_keys("20.98")  # IMPALA's deep network on Pong, which has no record here
    assert _shown(browser) == []
    assert re.fullmatch(r"0 of \d+ rows, 1 more in “all rows”", form.find_element(By.TAG_NAME, "output").text)
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    assert form.find_element(By.TAG_NAME, "output").is_displayed()
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    verdict.select_by_visible_text("all rows")
    assert _tasks(browser) == ["pong"]
    assert not form.find_element(By.TAG_NAME, "output").is_displayed()


def test_on_a_phone_the_button_says_what_it_copies(browser):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    browser.refresh()
    assert _shown(browser)[0].find_element(By.CSS_SELECTOR, ".copy").text == "Copy command"


def test_the_page_begins_with_a_link_to_what_verdicts_mean(browser):
    browser.find_element(By.CSS_SELECTOR, "header a[href='#reading']").click()
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    top = browser.execute_script("return document.getElementById('reading').getBoundingClientRect().top")
    assert 0 <= top < 900


def test_one_search_covers_all_papers_and_opens_what_it_finds(browser):
    def shown_groups():
        script = "return arguments[0].map((group) => [group.id.split('-')[0], group.open])"
        return [tuple(group) for group in browser.execute_script(script, _displayed(browser, "details.group"))]

    words, verdict, form = _filters(browser)
    verdict.select_by_visible_text("all rows")
    before = shown_groups()
    assert before[0] == ("impala", True)
    assert not any(is_open for _, is_open in before[1:])
    words.send_keys("humanoid")
    assert {paper for paper, _ in shown_groups()} == {"acer", "refer", "stac"}
    assert all(is_open for _, is_open in shown_groups())
    papers = _displayed(browser, "section.paper")
    assert [paper.get_attribute("id") for paper in papers] == ["acer", "refer", "stac"]
    count = int(form.find_element(By.TAG_NAME, "output").text.split()[0])
    assert count == len(_displayed(browser, ".rows tbody tr"))
    words.clear()
    words.send_keys(" ")
    assert shown_groups() == before
    assert len(_displayed(browser, "section.paper")) == 5
    words.send_keys("humanoid")
    browser.find_element(By.CSS_SELECTOR, "nav a[href='#impala']").click()  # ends the search
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert words.get_attribute("value") == ""
    assert browser.find_element(By.ID, "impala").is_displayed()


def test_a_main_claim_leads_to_its_row_though_it_has_no_run(browser):
    words, verdict, _ = _filters(browser)
    words.send_keys("pong")
    link = browser.find_element(By.CSS_SELECTOR, ".claims small a")
    row = browser.find_element(By.ID, link.get_attribute("href").partition("#")[2])
    assert not row.is_displayed()
    link.click()
    browser.execute_async_script("setTimeout(arguments[0], 300)")
    assert row.is_displayed()
    top, height = browser.execute_script("return [arguments[0].getBoundingClientRect().top, innerHeight]", row)
    assert 0 <= top < height
    assert row.find_elements(By.CSS_SELECTOR, ".command code")
    assert (words.get_attribute("value"), verdict.first_selected_option.text) == ("", "all rows")


def test_columns_sort_both_ways_with_the_keyboard_too(browser):
    header = browser.find_elements(By.CSS_SELECTOR, "#impala table.rows thead th")[3]
    header.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert header.get_attribute("aria-sort") == "ascending"
    assert _tasks(browser)[0] == "pong"
    header.find_element(By.TAG_NAME, "button").send_keys(Keys.SPACE)
    assert header.get_attribute("aria-sort") == "descending"
    assert _tasks(browser)[0] == "beam_rider"


def test_command_is_copied(browser):
    browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite"]})
    button = _shown(browser)[0].find_element(By.CSS_SELECTOR, ".copy")
    assert button.get_attribute("aria-label").startswith("Copy the command for ")
    button.click()
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert button.text == "Copied"


def test_a_result_links_to_what_was_measured(browser):
    link = _shown(browser)[0].find_element(By.TAG_NAME, "a")
    link.click()
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    runs = browser.find_element(By.ID, browser.current_url.split("#")[1])
    top = browser.execute_script("return arguments[0].getBoundingClientRect().top", runs)
    assert 0 <= top < 900
    assert runs.find_element(By.LINK_TEXT, "JSON").is_displayed()  # the list of runs is open


def test_curves_by_wall_time_take_the_place_of_those_by_frames(browser):
    browser.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    card = browser.find_element(By.ID, "impala-atari_shallow-pong")
    by_steps, by_time = (card.find_element(By.CSS_SELECTOR, f"img.by-{axis}") for axis in ("steps", "time"))
    untimed = browser.find_element(By.CSS_SELECTOR, "#impala-atari_shallow-alien img.by-steps")
    assert (by_steps.is_displayed(), by_time.is_displayed()) == (True, False)
    by_wall_time = browser.find_element(By.CSS_SELECTOR, "#impala .axis [value=time]")
    browser.execute_async_script("arguments[0].scrollIntoView(); setTimeout(arguments[1], 100)", by_wall_time)
    by_wall_time.click()
    assert (by_steps.is_displayed(), by_time.is_displayed(), untimed.is_displayed()) == (False, True, True)


def test_images_are_loaded_when_they_come_into_view(browser):
    loaded = "return [...document.images].filter((image) => image.naturalWidth).length"
    count = len(browser.find_elements(By.TAG_NAME, "img"))
    assert browser.execute_script(loaded) < count
    browser.execute_script(
        """for (const part of document.querySelectorAll('details')) part.open = true;
           for (const radio of document.querySelectorAll('[value=time]')) radio.checked = true;
           for (const image of document.images) image.loading = 'eager'"""
    )
    browser.execute_async_script("setTimeout(arguments[0], 500)")
    assert browser.execute_script(loaded) == count == 6 + 1 + 1 + 2  # curves; by time; intervals; bars and profile


def test_a_video_is_loaded_on_demand_and_plays(browser):
    browser.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    video = browser.find_element(By.TAG_NAME, "video")
    assert video.is_displayed()
    assert browser.execute_script("return arguments[0].readyState", video) == 0  # nothing of it is loaded
    state = browser.execute_async_script(
        """const [video, done] = arguments;
           const report = () => done([video.readyState, video.duration, video.videoWidth, video.videoHeight,
                                      video.error && video.error.message]);
           video.onended = report; video.onerror = report; video.play().catch(report)""",
        video,
    )
    assert state == [pytest.approx(3, abs=1), pytest.approx(1.0, abs=0.11), 320, 240, None]
    poster = browser.execute_async_script(
        """const [video, done] = arguments, image = new Image();
           image.onload = () => done(image.naturalWidth); image.onerror = () => done(0); image.src = video.poster""",
        video,
    )
    assert poster == 320


def _texts_outside(browser):
    """Texts of the page's charts that stand outside their box, which leaves the page."""
    outside = []
    for source in [image.get_attribute("src") for image in browser.find_elements(By.TAG_NAME, "img")]:
        browser.get(source)
        outside += browser.execute_script(
            """const svg = document.documentElement, box = svg.viewBox.baseVal;
               const scale = svg.getBoundingClientRect().width / box.width;
               return [...svg.querySelectorAll('text')].filter((text) => {
                 const inner = text.getBoundingClientRect(), limit = 1;
                 return inner.left < -limit || inner.top < -limit || inner.right > scale * box.width + limit
                     || inner.bottom > scale * box.height + limit || !inner.width;
               }).map((text) => `${arguments[0]}: ${text.textContent}`)""",
            source,
        )
    return outside


def test_charts_are_plotted_inside_their_boxes(browser):
    assert _texts_outside(browser) == []


def test_metaparameters_are_seen_with_the_runs_of_their_agent(chromium, tmp_path):
    agents = ("stacx", "stacx_two_alphas", "stac_gamma")
    for agent in agents:
        for seed in (1, 2):
            write(tmp_path / "results", make_tuned(seed, agent, heads=1 if agent == "stac_gamma" else 3))
    chromium.get(page.write_report(tmp_path / "report", tmp_path / "results").as_uri())
    chromium.execute_script(
        """for (const part of document.querySelectorAll('details')) {
             part.open = true;
             part.style.contentVisibility = 'visible';  // parts out of sight have no names yet
           }"""
    )
    images = chromium.find_elements(By.CSS_SELECTOR, ".runs img.metaparameters")
    assert len(images) == len(agents)
    assert all(image.is_displayed() and image.accessible_name.startswith("Metaparameters of ") for image in images)
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= 390
    assert _texts_outside(chromium) == []
    assert chromium.get_log("browser") == []


def test_phone_needs_no_sideways_scrolling(browser):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    browser.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    small = browser.execute_script(
        "return [...document.querySelectorAll('.copy')].filter((b) => b.offsetParent && b.offsetHeight < 36).length"
    )
    assert small == 0


def test_the_colours_of_the_bars_are_named_in_a_line_of_their_own_on_a_phone(browser):
    columns, legend = "nav thead .dot", "nav .legend .dot"
    names = [len(_displayed(browser, columns)), len(_displayed(browser, legend))]
    assert names[0] > 0
    assert names[1] == 0
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    assert [len(_displayed(browser, legend)), len(_displayed(browser, columns))] == names


def test_phone_opens_on_a_short_page_with_rows_as_cards(browser):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    assert browser.execute_script("return document.documentElement.scrollHeight") < 15_000  # less than eighteen screens
    row = _shown(browser)[0]
    assert browser.execute_script("return getComputedStyle(arguments[0]).display", row) == "grid"
    task, verdict = row.find_element(By.TAG_NAME, "th"), row.find_element(By.CLASS_NAME, "verdict")
    assert abs(task.location["y"] - verdict.location["y"]) < 10
    assert task.location["x"] < verdict.location["x"]
    verdicts = browser.find_elements(By.CSS_SELECTOR, ".claims .verdict")
    assert [found.text for found in verdicts if found.location["x"] + found.size["width"] > 390] == []


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
