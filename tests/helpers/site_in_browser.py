"""A site served to a browser: each page is opened in frames, narrow and wide, light and dark, and says what went wrong."""

import http.server
import json
import re
import shutil
import subprocess
import threading
from functools import partial
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --window-size=1400,900"
)
# In each page, before its own scripts: what is an error, and which mode it is shown in.
WATCH = """<script>
window.problems = [];
addEventListener("error", ({message, target}) => problems.push(message || `not loaded: ${target.src || target.href}`), true);
for (const kind of ["error", "warn"]) console[kind] = (...words) => problems.push(words.join(" "));
addEventListener("unhandledrejection", event => problems.push(String(event.reason)));
</script>"""
# The outer page: opens the pages one after the other in each of the frames, and posts what it saw.
OUTER = """<!doctype html><meta charset="utf-8"><body><script>
const pages = %s, widths = %s, seen = [];
const wait = ms => new Promise(done => setTimeout(done, ms));
async function open(frame, page) {
  await new Promise(done => { frame.onload = done; frame.src = page; });
  const inner = frame.contentWindow, end = Date.now() + 10000;
  while (inner.MathJax && !inner.MathJax.startup?.promise && Date.now() < end) await wait(20);
  if (inner.MathJax) await inner.MathJax.startup.promise;
  await wait(30);
  return inner;
}
async function look(mode, width) {
  const frame = document.body.appendChild(document.createElement("iframe"));
  frame.style = `width:${width}px;height:800px`;
  for (const page of pages) {
    const inner = await open(frame, page), root = inner.document.documentElement;
    const [text, ground] = [inner.document.querySelector(".bd-article p, .bd-article h1, p"), inner.document.body]
      .map(node => node ? inner.getComputedStyle(node) : null);
    seen.push({page, mode, width, problems: inner.problems, theme: root.dataset.theme,
      wide: root.scrollWidth - inner.innerWidth,
      text: text && text.color, ground: ground.backgroundColor,
      images: [...inner.document.images].filter(image => image.complete && !image.naturalWidth).map(image => image.src)});
  }
  frame.remove();
}
async function search(words) {
  const frame = document.body.appendChild(document.createElement("iframe"));
  frame.style = "width:1200px;height:800px";
  const inner = await open(frame, `search.html?q=${words}`), end = Date.now() + 20000;
  while (!inner.document.querySelector("#search-results li a") && Date.now() < end) await wait(50);
  await wait(500);
  return [...inner.document.querySelectorAll("#search-results li a")].map(link => link.getAttribute("href"));
}
(async () => {
  for (const mode of ["light", "dark"]) {
    localStorage.setItem("mode", mode); localStorage.setItem("theme", mode);
    await Promise.all(widths.map(width => look(mode, width)));
  }
  await fetch("/seen", {method: "POST", body: JSON.stringify({seen, found: await search("AdaptiveNEXT")})});
})().catch(error => fetch("/seen", {method: "POST", body: JSON.stringify({failed: String(error)})}));
</script>"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the site, with the watching script in each page, and takes what the outer page saw."""

    def __init__(self, *arguments, outer, told, **options):
        self.outer, self.told = outer, told
        super().__init__(*arguments, **options)

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        if self.path == "/outer.html":
            self.answer(self.outer)
        elif path.suffix == ".html" and path.is_file():
            self.answer(re.sub(r"<head>", lambda found: found[0] + WATCH, path.read_text(), count=1))
        else:
            super().do_GET()

    def answer(self, text):
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.told["seen"] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer("")
        self.told["done"].set()

    def log_message(self, *arguments):
        pass


def opened(site, pages, profile, widths=(400, 1200), seconds=900):
    """Return what a browser saw of each page, in each mode and width, and what a search found."""
    told = {"done": threading.Event()}
    outer = OUTER % (json.dumps(pages), json.dumps(widths))
    server = http.server.ThreadingHTTPServer(("localhost", 0), partial(Handler, outer=outer, told=told, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://localhost:{server.server_address[1]}/outer.html"
    browser = subprocess.Popen(
        [CHROMIUM, *OPTIONS.split(), f"--user-data-dir={profile}", "--remote-debugging-port=0", address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert told["done"].wait(seconds), "the browser did not answer"
    finally:
        browser.terminate()
        browser.wait(30)
        server.shutdown()
    return told["seen"]
