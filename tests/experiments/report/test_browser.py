"""The report in a browser: what its reader sees."""

import json
import re
import shutil
import subprocess

import pytest

from consensus import plotting
from tests.helpers.report_cases import FAILING, NEXT, ODD

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
OPTIONS += " --virtual-time-budget=20000 --window-size=1000,1400 --dump-dom"
WATCH = """<script>
const problems = [];
window.addEventListener("error", event => problems.push(event.message));
document.addEventListener("securitypolicyviolation", event => problems.push(event.violatedDirective));
for (const kind of ["error", "warn"]) console[kind] = (...words) => problems.push(words.join(" "));
</script>"""
LOOK = """<script>
const texts = query => [...document.querySelectorAll(query)].map(node => node.textContent);
setTimeout(() => {
  const seen = {problems, names: texts(".legendtext"), titles: texts(".g-xtitle text, .g-ytitle text"),
    buttons: [...document.querySelectorAll(".modebar-btn")].map(node => node.dataset.title),
    menus: texts(".updatemenu-header text"), foreign: document.querySelectorAll("#x").length,
    wide: document.documentElement.scrollWidth - innerWidth,
    fetched: performance.getEntriesByType("resource").map(({name}) => name)};
  document.body.append(Object.assign(document.createElement("pre"), {id: "seen", textContent: JSON.stringify(seen)}));
}, 2000);
</script>"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open the page in")
def test_a_browser_draws_every_solver_without_an_error(page, tmp_path):
    end = page.rindex("</body>")
    (tmp_path / "page.html").write_text(page[:end].replace("<style>", f"{WATCH}<style>", 1) + LOOK + page[end:])
    command = [CHROMIUM, *OPTIONS.split(), f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "page.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr
    seen = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    # Names are broken into lines.
    names = [f"{NEXT} (3 runs)", f"{ODD} (3 runs)", f"{FAILING} (3 runs, 2 diverged)"]
    assert [text.replace(" ", "") for text in seen.pop("names")] == [
        name.replace(" ", "") for name in names
    ]  # broken into lines
    assert seen == {
        "problems": [],
        "fetched": [],
        "titles": [plotting.LABELS["exchanges"], plotting.LABELS["objective"]],
        "menus": [plotting.LABELS["objective"], plotting.LABELS["exchanges"]],
        "buttons": ["Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"],  # none sends data away
        "foreign": 0,
        "wide": seen["wide"],
    }
    assert seen["wide"] <= 0  # nothing sticks out of the page
