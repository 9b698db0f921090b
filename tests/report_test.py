#!/usr/bin/env python3
"""`flashcore report`: the page is well-formed, stands alone and shows what the results hold."""

import json
import re
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path

from cli_tools import WITH_LEAKS, flashcore
from report_tools import RUNGS, recorded_bench, write_results

VOID = {"meta", "link"}


class Page(HTMLParser):
    """The tree of a page, as far as the tests ask; a tag that is not closed in order is an error."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        last = self.open.pop()
        assert last == tag, f"{tag} closes {last} in line {self.getpos()[0]}"

    def handle_data(self, data):
        if data.strip() and "style" not in self.open:
            self.texts.append(data.strip())


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.path = Path(cls.directory.name)
        write_results(cls.path)
        (cls.path / "other.json").write_text('{"something": "else"}')
        cls.result = flashcore("report", cls.path, environment=WITH_LEAKS)
        cls.text = (cls.path / "report.html").read_text()
        cls.page = Page(cls.text)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def report_of(self, **files):
        """The page of these results alone."""
        with tempfile.TemporaryDirectory() as directory:
            for name, content in files.items():
                (Path(directory) / f"{name}.json").write_text(json.dumps(content))
            result = flashcore("report", directory)
            self.assertEqual(result.returncode, 0, result.stderr)
            return Page((Path(directory) / "report.html").read_text())

    def shows(self, text):
        self.assertTrue(text in self.page.texts, f"the page does not show: {text}")

    def test_the_program_says_what_it_wrote(self):
        self.assertEqual((self.result.returncode, self.result.stderr), (0, ""))
        kinds = len(list(self.path.glob("*.json"))) - 1
        self.assertEqual(self.result.stdout, f"{self.path}/report.html: a page of {kinds} results\n")

    def test_the_page_stands_alone(self):
        self.assertNotIn("script", self.page.tags)
        self.assertNotIn("img", self.page.tags)
        addresses = [value for name, value in self.page.attributes if name in ("href", "src")]
        self.assertEqual(addresses, ["data:,"])
        self.assertNotIn("url(", self.text)
        self.assertNotIn("@import", self.text)

    def test_every_kind_of_result_has_its_section_and_picture(self):
        for heading in ("The machine (info.json)", "Is it right? (check.json)", "How fast is it? (bench.json)",
                        "Other programs (peers.json)", "The ladder (ladder.json)", "Tuning (tune.json)"):
            self.shows(heading)
        for title in ("Latency of whole calls", "Roofline", "The ladder", "Tuning landscape",
                      "Largest error of each case, by its tolerance",
                      "Errors of all elements in units of the last place"):
            self.assertIn(f"<title>{title}</title>", self.text)
        self.shows("Left out: other.json, which holds no result that a page shows.")

    def test_every_number_of_the_ladder_is_there(self):
        for rung, time in RUNGS.items():
            self.shows(f"{time:.2f} us")
            self.shows(f"what <{rung}> does & why")

    def test_a_faster_peer_is_shown_as_such(self):
        latency = re.search(r"<title>Latency of whole calls</title>(?:(?!</svg>).)*cuDNN.*?</svg>", self.text, re.S)[0]
        bars = re.findall(r'<rect [^>]*class="(\w+)"', latency)
        self.assertEqual(bars, ["bar", "other", "other", "worse", "other"])
        self.assertNotIn("elsewhere", latency)

    def test_points_are_held_to_the_roof(self):
        by_arithmetic = 536870912 / 5.6e-6 / 1070e12
        by_memory = 3e11 / 818e-6 / (4800e9 * 3e11 / 3e9)
        for text in (f"1  mission: {100 * by_arithmetic:.0f} %", f"2  slow: {100 * by_memory:.0f} %"):
            self.shows(f"{text} of the roof")
        self.assertIn("The roof is what two kernels reached on this device", " ".join(self.page.texts))

    def test_a_roof_by_clocks_is_said_to_be_one(self):
        bench = recorded_bench()
        del bench["most_measured"]
        page = self.report_of(bench=bench)
        self.assertIn("The roof is what the device's clocks allow", " ".join(page.texts))

    def test_the_landscape_marks_the_fastest(self):
        landscape = re.search(r"<title>Tuning landscape</title>.*?</svg>", self.text, re.S)[0]
        self.assertEqual(landscape.count("<rect"), 8)
        best = re.search(r'class="best"/>\n<text[^>]*>([^<]*)<', landscape)[1]
        self.assertEqual(best, "7.5")

    def test_errors_fall_into_their_bins(self):
        rows = [{"outcome": "passed", "max_error": 0.55, "tolerance": 1, "ulps": [3, 1, 0]},
                {"outcome": "failed", "max_error": None, "tolerance": 1, "ulps": [0, 0, 2]},
                {"outcome": "refused"}]
        page = self.report_of(check={"verb": "check", "ulp_limits": [0.5, 1], "results": rows})
        labels = ["to 60 %", "beyond", "to 0.5 ulp", "to 1 ulp", "beyond"]
        counted = [(self.before(page, label, skip), label) for label, skip in zip(labels, (0, 0, 0, 0, 1))]
        self.assertEqual([count for count, _ in counted], ["1", "1", "3", "1", "2"])

    def before(self, page, label, skip):
        places = [i for i, text in enumerate(page.texts) if text == label]
        return page.texts[places[skip] - 1]

    def test_names_cannot_break_the_page(self):
        evil = "</td><script>alert(1)</script>&amp;\"'"
        page = self.report_of(bench={"verb": "bench", "device": evil, "rows": [
            {"name": evil, "kernel": evil, "p50_us": 1, "bytes": 1, "operations": 1, "problem": {"text": evil}}]})
        self.assertNotIn("script", page.tags)
        self.assertIn(evil, page.texts)

    def test_results_that_lack_everything_still_make_a_page(self):
        for verb in ("repro", "info", "check", "bench", "peers", "ladder", "tune", "emu", "resources"):
            for content in ({}, {"rows": [{}], "results": [{}], "rungs": [{}], "candidates": [{}], "axes": [{}],
                                 "kernels": [{}], "lower_bounds": [{}], "steps": [{}], "devices": [{}]},
                            {"rows": 3, "results": "x", "rungs": None, "candidates": True, "axes": {"a": 1}}):
                self.report_of(only={"verb": verb, **content})

    def refuse(self, *words):
        result = flashcore("report", *words)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stderr, r"\Aflashcore: .*\n\Z")
        return result.stderr

    def test_bad_input_is_named(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory)
            self.assertIn("holds no result", self.refuse(directory))
            self.assertIn("cannot read", self.refuse(path / "absent.json"))
            (path / "bad.json").write_text('{"verb": "bench",\n "rows": [1, 2}')
            self.assertIn("bad.json is no JSON: line 2: a comma or a ] was expected", self.refuse(directory))
            (path / "bad.json").write_text("[" * 100000)
            self.assertIn("more than 64 levels", self.refuse(directory))
            self.assertFalse((path / "report.html").exists())
            (path / "bad.json").write_text('{"verb": "info"}')
            self.assertIn("cannot write", self.refuse(directory, "--out", path / "no" / "page.html"))


class JsonTest(unittest.TestCase):
    """The reader against Python's, through a page that shows a text."""

    def reads(self, text):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "x.json"
            path.write_text(text)
            return flashcore("report", path, "--out", Path(directory) / "page.html").returncode == 0

    def test_the_grammar(self):
        frame = '{"verb": "info", "x": %s}'
        right = ["0", "-1.5e+3", "1E2", '""', r'"\u00e9\ud83d\ude00\n\"\\\/"', "[]", "{}", "[1, [2]]", "null", "true"]
        wrong = ["01", "1.", ".5", "1e", "+1", "0x10", "nan", "'a'", '"a', '"\\x"', '"\\ud800"', '"\t"', "[1,]", "[1 2]",
                 '{"a" 1}', '{"a":}', "{a: 1}", "tru", "", r'"\u0000"', "1 2"]
        for text in right:
            json.loads(frame % text)
            self.assertTrue(self.reads(frame % text), text)
        for text in wrong:
            self.assertFalse(self.reads(frame % text), text)
        self.assertFalse(self.reads(frame % "1" + "x"))


if __name__ == "__main__":
    unittest.main()
