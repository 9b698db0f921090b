#!/usr/bin/env python3
"""The page of `flashcore report` in a real browser, without a window: `make test-browser`.

    browser_test.py [--keep DIR]     also leaves the page and its screenshots, to be looked at
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from cli_tools import flashcore
from report_tools import write_results

BROWSER = next((path for name in ("chromium", "google-chrome", "chromium-browser") if (path := shutil.which(name))), None)
DARK, LIGHT = "--blink-settings=preferredColorScheme=0", "--blink-settings=preferredColorScheme=1"
WIDE, NARROW = "--window-size=1280,2000", "--window-size=500,2000"

# The page has no script; this one is added to a copy and says what the browser made of it.
PROBE = """<script>
const inside = (a, b) => a.x >= b.x - 1 && a.y >= b.y - 1 && a.x + a.width <= b.x + b.width + 1
                      && a.y + a.height <= b.y + b.height + 1;
const pictures = [...document.querySelectorAll("svg")].map(svg => {
  const parts = [...svg.querySelectorAll("rect,text,line,circle,polyline")];
  return {title: svg.querySelector("title").textContent, area: svg.clientWidth * svg.clientHeight,
          parts: parts.length, cut: parts.filter(p => !inside(p.getBBox(), svg.viewBox.baseVal)).map(p => p.outerHTML)};
});
const colour = (element, name) => getComputedStyle(element)[name];
const answer = {pictures, background: colour(document.body, "backgroundColor"), ink: colour(document.body, "color"),
  picture_ink: colour(document.querySelector("svg text"), "fill"),
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth};
document.body.insertAdjacentHTML("beforeend", "<pre id=answer></pre>");
document.getElementById("answer").textContent = JSON.stringify(answer);
</script>"""


def browse(directory, page, *flags):
    return subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
         f"--user-data-dir={directory}/profile", *flags, Path(page).resolve().as_uri()],
        capture_output=True, text=True, timeout=120)


def brightness(colour):
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


@unittest.skipIf(BROWSER is None, "there is no chromium; scripts/install-deps browser installs it")
class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = KEEP or Path(tempfile.mkdtemp())
        write_results(cls.directory)
        assert flashcore("report", cls.directory).returncode == 0
        cls.page = cls.directory / "report.html"
        cls.probed = cls.directory / "probed.html"
        cls.probed.write_text(cls.page.read_text().replace("</body>", PROBE + "</body>"))

    @classmethod
    def tearDownClass(cls):
        if not KEEP:
            shutil.rmtree(cls.directory)

    def ask(self, *flags):
        result = browse(self.directory, self.probed, "--dump-dom", *flags)
        self.assertNotIn("CONSOLE", result.stderr)
        found = re.search(r'<pre id="answer">(.*?)</pre>', result.stdout, re.S)
        self.assertTrue(found, "the browser did not come to the end of the page")
        return json.loads(re.sub("&(amp|lt|gt);", lambda m: {"amp": "&", "lt": "<", "gt": ">"}[m[1]], found[1]))

    def test_every_picture_is_drawn_whole(self):
        pictures = self.ask(WIDE, LIGHT)["pictures"]
        self.assertEqual(len(pictures), 8)
        for picture in pictures:
            self.assertGreater(picture["area"], 10000, picture["title"])
            self.assertGreater(picture["parts"], 3, picture["title"])
            self.assertEqual(picture["cut"], [], picture["title"])

    def test_light_and_dark_can_be_read(self):
        for flag, is_dark in ((LIGHT, False), (DARK, True)):
            answer = self.ask(WIDE, flag)
            self.assertEqual(brightness(answer["background"]) < 200, is_dark)
            for ink in (answer["ink"], answer["picture_ink"]):
                self.assertGreater(abs(brightness(ink) - brightness(answer["background"])), 400)

    def test_a_narrow_window_does_not_scroll_sideways(self):
        self.assertLessEqual(self.ask(NARROW, LIGHT)["overflow"], 0)

    def test_the_page_itself_reports_nothing(self):
        for name, flag in (("light", LIGHT), ("dark", DARK)):
            picture = self.directory / f"{name}.png"
            result = browse(self.directory, self.page, flag, "--window-size=1280,4000", f"--screenshot={picture}")
            self.assertNotIn("CONSOLE", result.stderr)
            self.assertGreater(picture.stat().st_size, 50000)

    def test_it_prints(self):
        paper = self.directory / "report.pdf"
        browse(self.directory, self.page, f"--print-to-pdf={paper}")
        self.assertEqual(paper.read_bytes()[:5], b"%PDF-")
        self.assertGreater(paper.stat().st_size, 50000)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=Path)
    options, rest = parser.parse_known_args()
    KEEP = options.keep
    if KEEP:
        KEEP.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *rest])
