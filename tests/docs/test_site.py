"""The site as `make docs` leaves it: every link leads somewhere, and a browser opens each page without an error."""

import os
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.helpers import site_in_browser

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="there is no site: make docs builds it"),
]
OWN = "reference", "_modules"  # of which some pages are opened, as they are made by the same template


class Page(HTMLParser):
    """The targets of a page, and what it links to."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.targets |= {named[key] for key in ("id", "name") if named.get(key)}
        self.links += [named[key] for key in ("href", "src") if named.get(key)]


@pytest.fixture(scope="module")
def pages():
    return {path: Page(path.read_text()) for path in SITE.rglob("*.html") if "_static" not in path.parts}


def test_every_link_and_picture_of_the_site_is_there(pages):
    assert len(pages) > 400
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("data:"):
                continue
            target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            if not target.exists():
                broken.append(f"{path.relative_to(SITE)}: {link}")
                continue
            # Listings of source name one module per file, where a name may be public in another: they lead to the page.
            listed = target.suffix != ".html" or "_modules" in target.parts + path.parts
            if not listed and unquote(parts.fragment) not in pages[target].targets | {"", "top"}:
                broken.append(f"{path.relative_to(SITE)}: {link} has no such place")
    assert broken == []


def test_nothing_is_fetched_from_elsewhere(pages):
    """Other sites are linked to; no script, style, font or picture comes from one."""
    loaded = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}

    found = []

    class Loaded(HTMLParser):
        def handle_starttag(self, tag, attributes):
            named = dict(attributes)
            if tag in loaded and urlsplit(named.get(loaded[tag]) or "").netloc and named.get("rel") != "canonical":
                found.append((tag, named[loaded[tag]]))

    for path in pages:
        Loaded().feed(path.read_text())
    assert found == []


FAULTY = """<!doctype html><html><head><title>x</title></head><body><p style="color: #bbb; width: 900px">wide and pale</p>
<img src="missing.png"><script>console.error("told"); undefined.x;</script></body></html>"""


@pytest.mark.skipif(site_in_browser.CHROMIUM is None, reason="there is no Chromium to open the pages in")
def test_faults_of_a_page_are_found(tmp_path):
    (tmp_path / "faulty.html").write_text(FAULTY)
    (tmp_path / "search.html").write_text(
        FAULTY.replace("<script>", '<ul id="search-results"><li><a href="y">y</a></li></ul><script>')
    )
    seen = site_in_browser.opened(tmp_path, ["faulty.html"], tmp_path / "profile")
    assert seen["found"] == ["y"]
    for view in seen["seen"]:
        told, error = sorted(problem for problem in view["problems"] if "missing.png" not in problem)
        assert (told, "undefined" in error) == ("told", True) or (error, "undefined" in told) == ("told", True)
        assert any("missing.png" in problem for problem in view["problems"])
        assert [image.rpartition("/")[2] for image in view["images"]] == ["missing.png"]
        assert (view["wide"] > 400) == (view["width"] == 400)
        assert contrast(view["text"], "rgb(255, 255, 255)") < 2


@pytest.mark.skipif(site_in_browser.CHROMIUM is None, reason="there is no Chromium to open the pages in")
def test_a_browser_opens_every_page_light_and_dark_narrow_and_wide(pages, tmp_path):
    names = sorted(str(path.relative_to(SITE)) for path in pages)
    made = [name for name in names if name.startswith(OWN)]
    opened = [name for name in names if name not in made] + made[:: max(1, len(made) // 20)]
    seen = site_in_browser.opened(SITE, opened, tmp_path / "profile")
    assert "failed" not in seen, seen
    views = seen["seen"]
    assert len(views) == 4 * len(opened)
    assert [view for view in views if view["problems"]] == []
    assert [view for view in views if view["images"]] == []
    assert [(view["page"], view["width"], view["wide"]) for view in views if view["wide"] > 0] == []
    assert {(view["mode"], view["theme"]) for view in views if view["theme"]} == {("light", "light"), ("dark", "dark")}
    low = [(view["page"], view["mode"]) for view in views if view["text"] and contrast(view["text"], view["ground"]) < 4.5]
    assert low == []
    assert any("consensus.solvers.AdaptiveNEXT" in link for link in seen["found"][:5]), seen["found"][:10]


def contrast(text, ground):
    """Return the contrast of two CSS colours, by WCAG's relative luminance."""

    def luminance(colour):
        parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(text), luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
