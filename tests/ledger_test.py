#!/usr/bin/env python3
"""`flashcore ledger`: the record of experiments, and the page that is written from it."""

import json
import tempfile
import unittest
from pathlib import Path

from cli_tools import WITH_LEAKS, flashcore

DOCS = Path(__file__).parent.parent / "docs"
FIELDS = "date change predicted measured verdict gpu commit how".split()


def result(verb="bench", device="NVIDIA L4", **times):
    """p10, p50, p90 by problem."""
    rows = [{"problem": {"text": name}, "p10_us": t[0], "p50_us": t[1], "p90_us": t[2]} for name, t in times.items()]
    return {"verb": verb, "device": device, "rows": rows}


class LedgerTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name)
        self.ledger = self.path / "ledger.txt"
        self.ledger.write_text("# ours\n")

    def tearDown(self):
        self.directory.cleanup()

    def succeed(self, *words):
        ran = flashcore("ledger", *words)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return ran.stdout

    def refuse(self, status, *words):
        ran = flashcore("ledger", *words)
        self.assertEqual(ran.returncode, status, ran.stdout)
        self.assertRegex(ran.stderr, r"\Aflashcore: .*\n\Z")
        return ran.stderr

    def add(self, *words):
        return self.succeed(self.ledger, "--add", "--change", "c", "--predicted", "p", "--commit", "abc", *words)

    def entries(self, *words):
        return json.loads(self.succeed(self.ledger, "--json", *words))["experiments"]

    def results(self, before, after):
        for name, content in (("before", before), ("after", after)):
            (self.path / f"{name}.json").write_text(json.dumps(content))
        return ["--before", self.path / "before.json", "--after", self.path / "after.json"]

    def test_the_page_is_what_the_ledger_says(self):
        written = flashcore("ledger", DOCS / "ledger.txt", "--markdown", environment=WITH_LEAKS).stdout
        self.assertTrue(written == (DOCS / "ledger.md").read_text(),
                        "docs/ledger.md is not what 'flashcore ledger --markdown' writes")

    def test_what_is_added_can_be_found(self):
        self.add("--measured", "5 to 6", "--verdict", "negative", "--gpu", "L4", "--how", "so")
        self.add("--measured", "6 | 5", "--verdict", "kept", "--gpu", "H200", "--how", "`x`")
        self.assertTrue(self.ledger.read_text().startswith("# ours\n\ndate: "))
        self.assertEqual([e["measured"] for e in self.entries()], ["5 to 6", "6 | 5"])
        self.assertEqual(list(self.entries()[0]), FIELDS)
        self.assertRegex(self.entries()[0]["date"], r"\A\d{4}-\d\d-\d\d\Z")
        for words, found in ((["--verdict", "kept"], ["H200"]), (["--gpu", "L4"], ["L4"]),
                             (["--filter", "6"], ["L4", "H200"]), (["--filter", "5 to"], ["L4"]),
                             (["--filter", "x", "--gpu", "L4"], [])):
            self.assertEqual([e["gpu"] for e in self.entries(*words)], found)
        self.assertIn("2 experiments", self.succeed(self.ledger))
        page = self.succeed(self.ledger, "--markdown")
        negative, kept = page.split("## What was kept")
        self.assertIn("| c | p | 5 to 6 | L4, so | abc |", negative)
        self.assertIn(r"| c | p | 6 \| 5 | H200, `x` | abc |", kept)

    def test_results_are_compared(self):
        words = self.results(result(a=(9, 10, 11), b=(9, 10, 11), c=(9, 10, 11), only=(1, 1, 1)),
                             result(a=(7, 8, 9), b=(9, 10.5, 12), c=(11, 12, 13)))
        text = self.succeed(*words)
        for row in (r"a +10.00 +8.00 +1.250 +faster", r"b +10.00 +10.50 +0.952 +same", r"c +10.00 +12.00 +0.833 +slower"):
            self.assertRegex(text, row)
        self.assertNotIn("only", text)

    def test_calls_without_lse_are_other_rows(self):
        before, after = result(a=(9, 10, 11)), result(a=(7, 8, 9))
        for content in (before, after):
            content["rows"].append({**content["rows"][0], "without": "LSE"})
        after["rows"].pop(0)
        text = self.succeed(*self.results(before, after))
        self.assertRegex(text, r"a without LSE +10.00 +8.00 +1.250 +faster")
        self.assertNotRegex(text, r"a +10.00")

    def test_an_experiment_takes_its_numbers_from_the_results(self):
        same, faster, slower = (9, 10, 11), (7, 8, 9), (11, 12, 13)
        for after, verdict in (((faster, same), "kept"), ((same, same), "negative"), ((slower, same), "negative"),
                               ((faster, slower), "mixed")):
            self.add(*self.results(result(a=same, b=same), result(a=after[0], b=after[1])))
            last = self.entries()[-1]
            self.assertEqual(last["verdict"], verdict)
            self.assertEqual(last["measured"], f"a 10.00 → {after[0][1]:.2f} µs; b 10.00 → {after[1][1]:.2f} µs")
            self.assertEqual((last["gpu"], last["how"]), ("NVIDIA L4", "`flashcore bench`, before and after"))

    def test_bad_input_is_named(self):
        self.assertIn("'measured' is missing", self.refuse(1, self.ledger, "--add", "--change", "a", "--predicted", "b"))
        self.assertIn("'change' is longer than a line", self.refuse(1, self.ledger, "--add", "--change", "a\nb"))
        self.assertEqual(self.ledger.read_text(), "# ours\n")
        self.assertIn("go together", self.refuse(2, "--before", "x"))
        self.assertIn("no timed problem in common", self.refuse(1, *self.results(result(a=(1, 1, 1)), result(b=(1, 1, 1)))))
        self.assertIn("cannot read", self.refuse(1, self.path / "absent.txt"))
        for text, sentence in (("change x\n", "line 1: there is no 'name: value' in 'change x'"),
                               ("\ncolour: red\n", "line 2: an experiment has no field 'colour'"),
                               ("how: a\nhow: b\n", "line 2: this experiment has two lines 'how'"),
                               ("how: a\n", "the experiment that ends in line 1: 'date' is missing"),
                               ("".join(f"{f}: x\n" for f in FIELDS), "the verdict 'x' is none of negative, mixed, kept")):
            self.ledger.write_text(text)
            self.assertIn(sentence, self.refuse(1, self.ledger))


if __name__ == "__main__":
    unittest.main()
