"""The report in a real browser: no errors, no requests, tabs and tooltips by mouse and keyboard."""

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from robustruct.comparison import Comparison
from robustruct.report import write

selenium = pytest.importorskip("selenium", reason="needs selenium (pip install selenium)")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="needs Chromium and chromedriver on the path"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(
    browser: Any,
    sequences: Comparison,
    trees: Comparison,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Any:
    write({"sequences": sequences, "trees": trees}[request.param], tmp_path / "report.html")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get("about:blank")
    browser.get_log("browser"), browser.get_log("performance")
    browser.get((tmp_path / "report.html").as_uri())
    return browser


both = pytest.mark.parametrize("opened", ["sequences", "trees"], indirect=True)
one = pytest.mark.parametrize("opened", ["sequences"], indirect=True)


def visible_panels(browser: Any) -> list[str]:
    outer = browser.find_elements(By.CSS_SELECTOR, "main > .tabs > [role=tabpanel]")
    return [panel.get_attribute("id") for panel in outer if panel.is_displayed()]


def tip(browser: Any) -> str:
    found = browser.find_element(By.ID, "tip")
    return found.text if found.is_displayed() else ""


def overflow(browser: Any) -> int:
    return browser.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


@both
def test_loads_without_errors_and_without_requests(opened: Any) -> None:
    for tab in opened.find_elements(By.CSS_SELECTOR, "[role=tab]"):
        if tab.is_displayed():
            tab.click()
    assert opened.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    requested = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in requested if url.startswith("file:")]) == 1


@one
def test_foreign_styles_and_scripts_do_nothing(opened: Any, tmp_path: Path) -> None:
    """As if a label had got into the page as markup."""
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    foreign = '<script>document.title = "taken"</script><style>h1 { display: none }</style>'
    foreign += '<p id="own" style="position: fixed" onclick="document.title = 1">here</p>'
    forged = source.replace("<main>", f"{foreign}<main>")
    assert forged != source
    (tmp_path / "forged.html").write_text(forged, encoding="utf-8")
    opened.get((tmp_path / "forged.html").as_uri())
    opened.find_element(By.ID, "own").click()
    assert opened.title.startswith("robustruct report")
    assert opened.find_element(By.TAG_NAME, "h1").is_displayed()
    assert opened.find_element(By.ID, "own").value_of_css_property("position") == "static"
    assert visible_panels(opened) == ["report-panel-0"]  # our own script runs
    assert len(opened.get_log("browser")) >= 3  # each is told


@one
def test_bars_and_cells_have_the_sizes_and_colours_of_their_values(opened: Any) -> None:
    opened.find_element(By.ID, "report-tab-2").click()
    bars = opened.find_elements(By.CSS_SELECTOR, ".bars .bar")
    widths = [bar.size["width"] / bar.find_element(By.XPATH, "..").size["width"] for bar in bars]
    wanted = [float(bar.get_attribute("width").rstrip("%")) / 100 for bar in bars]
    assert max(wanted) == 1.0
    assert all(abs(a - b) < 0.03 for a, b in zip(widths, wanted, strict=True))
    assert all(bar.size["height"] == 8 for bar in bars)
    cells = opened.find_elements(By.CSS_SELECTOR, ".heat td[data-tip]")
    colours = {}
    for cell in cells:
        sign, depth, *_ = cell.get_attribute("class").split()
        known = depth if depth == "heat-0" else (sign, depth)  # nothing is for and against alike
        colours[known] = cell.value_of_css_property("background-color")
    assert len(set(colours.values())) == len(colours) > 2


@both
def test_tabs_by_mouse(opened: Any) -> None:
    assert visible_panels(opened) == ["report-panel-0"]
    for i in (2, 4, 1):
        opened.find_element(By.ID, f"report-tab-{i}").click()
        assert visible_panels(opened) == [f"report-panel-{i}"]
        chosen = opened.find_elements(By.CSS_SELECTOR, "main > .tabs > div > [aria-selected=true]")
        assert [tab.get_attribute("id") for tab in chosen] == [f"report-tab-{i}"]


@one
def test_tabs_by_keyboard(opened: Any) -> None:
    keys = ActionChains(opened)
    keys.send_keys(Keys.TAB).perform()
    assert opened.switch_to.active_element.get_attribute("id") == "report-tab-0"
    for key, expected in (
        (Keys.ARROW_RIGHT, 1),
        (Keys.END, 4),
        (Keys.ARROW_RIGHT, 0),
        (Keys.ARROW_LEFT, 4),
        (Keys.HOME, 0),
    ):
        ActionChains(opened).send_keys(key).perform()
        assert visible_panels(opened) == [f"report-panel-{expected}"]
        assert opened.switch_to.active_element.get_attribute("id") == f"report-tab-{expected}"


@one
def test_tooltips_by_mouse(opened: Any) -> None:
    assert tip(opened) == ""
    dot = opened.find_element(By.CSS_SELECTOR, ".dot.crf")
    ActionChains(opened).move_to_element(dot).perform()
    assert tip(opened).startswith("CRF: ")
    ActionChains(opened).move_to_element(opened.find_element(By.TAG_NAME, "h1")).perform()
    assert tip(opened) == ""


@one
def test_heat_maps_by_keyboard(opened: Any) -> None:
    opened.find_element(By.ID, "report-tab-2").click()
    stops = opened.find_elements(By.CSS_SELECTOR, "#report-panel-2 .heat [tabindex='0']")
    assert len(stops) == 5  # one per map, not one per cell
    opened.execute_script("arguments[0].focus()", stops[0])
    assert tip(opened) == "predicting 0 where 0 is true costs 0"
    ActionChains(opened).send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT).perform()
    assert tip(opened) == "predicting 2 where 0 is true costs 2"
    ActionChains(opened).send_keys(Keys.ARROW_DOWN).perform()
    assert tip(opened) == "predicting 2 where 1 is true costs 1"
    ActionChains(opened).send_keys(Keys.ESCAPE).perform()
    assert tip(opened) == ""


@both
def test_strategies_have_tooltips(opened: Any) -> None:
    opened.find_element(By.ID, "report-tab-3").click()
    node = opened.find_element(By.CSS_SELECTOR, "#report-panel-3 [data-tip]")
    opened.execute_script("arguments[0].scrollIntoView()", node)

    def shown(browser: Any) -> str:
        browser.execute_script("arguments[0].blur(); arguments[0].focus()", node)
        return tip(browser)

    # Scrolling hides tips, and a busy browser scrolls late.
    text = WebDriverWait(opened, 10).until(shown)
    assert "predictor p:" in text
    assert "adversary q:" in text


@both
def test_fits_a_phone(opened: Any) -> None:
    opened.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 375, "height": 740, "deviceScaleFactor": 2, "mobile": True},
    )
    for i in range(5):
        opened.execute_script(f"document.getElementById('report-tab-{i}').click()")
        assert overflow(opened) <= 0, f"tab {i} is wider than the screen"


CLIPPED = """
const edge = document.documentElement.clientWidth, found = [];
for (const item of document.querySelectorAll("main button, main text, main td, main th, main li")) {
  const box = item.getBoundingClientRect();
  if (!box.width) continue;  // on another tab
  const around = item.closest(".scroll");
  const limit = around ? around.getBoundingClientRect().right : edge;
  const marked = around && around.classList.contains("after");
  if (box.right > limit + 1 && !marked || box.left < -1 && !around) found.push(item.outerHTML);
}
return found
"""


@pytest.mark.parametrize("opened", ["sequences"], indirect=True)
def test_examples_on_a_phone_start_at_their_first_mistake(opened: Any) -> None:
    metrics = {"width": 375, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    opened.refresh()
    opened.find_element(By.ID, "report-tab-3").click()
    seen = """return [...document.querySelectorAll("article .scroll")].map((box) => {
        const at = box.querySelector(".wrong").getBoundingClientRect();
        const all = box.getBoundingClientRect();
        const most = box.scrollWidth - box.clientWidth;
        return [at.left >= all.left && at.right <= all.right, box.scrollLeft, most];
    })"""
    WebDriverWait(opened, 5).until(
        lambda driver: all(shown for shown, _, _ in driver.execute_script(seen))
    )
    assert opened.execute_script(seen)


@both
def test_what_goes_on_beyond_the_edge_of_a_phone_fades_there(opened: Any) -> None:
    opened.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 375, "height": 740, "deviceScaleFactor": 2, "mobile": True},
    )
    for i in range(5):
        opened.execute_script(f"document.getElementById('report-tab-{i}').click()")
        WebDriverWait(opened, 10).until(lambda browser: browser.execute_script(CLIPPED) == [])
    opened.execute_script("document.getElementById('report-tab-0').click()")
    table = opened.find_element(By.CSS_SELECTOR, "#report-panel-0 .scroll")

    def edges(browser: Any) -> set[str]:
        return set(table.get_attribute("class").split()) - {"scroll"}

    assert edges(opened) == {"after"}
    assert "gradient" in table.value_of_css_property("mask-image")
    opened.execute_script("arguments[0].scrollLeft = 40", table)
    WebDriverWait(opened, 10).until(lambda browser: edges(browser) == {"before", "after"})
    opened.execute_script("arguments[0].scrollLeft = 9999", table)
    WebDriverWait(opened, 10).until(lambda browser: edges(browser) == {"before"})


@one
@pytest.mark.parametrize("width", [375, 1200])
def test_charts_use_the_width_and_words_keep_their_size(opened: Any, width: int) -> None:
    opened.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    room = opened.find_element(By.TAG_NAME, "main").size["width"]
    charts = opened.find_elements(By.CSS_SELECTOR, "#report-panel-0 .box > svg")
    assert [chart.size["width"] for chart in charts] == [room - 80] * 2
    ticks = opened.find_elements(By.CSS_SELECTOR, "#report-panel-0 .box .tick.middle")
    boxes = [tick.rect for tick in ticks]
    assert all(12 <= box["height"] <= 18 for box in boxes)
    for one, other in pairwise(boxes):
        assert one["x"] + one["width"] < other["x"] or other["y"] > one["y"] + 20


@one
def test_follows_light_and_dark(opened: Any) -> None:
    def lightness() -> float:
        colour = opened.execute_script(
            "return getComputedStyle(document.documentElement).backgroundColor"
        )
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) / 765

    for scheme, light in (("light", True), ("dark", False)):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        assert (lightness() > 0.5) == light
