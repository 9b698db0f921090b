#!/usr/bin/env python3
"""`flashcore repro`: what it ran, what it left out and why, on a machine without a GPU."""

import json
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from cli_tools import FLASHCORE, children_of, environment_with, flashcore

NO_GPU = {"FLASHCORE_CUDA_DRIVER": "/no/such/driver"}


def steps_of(directory):
    report = json.loads((Path(directory) / "repro.json").read_text())
    return {step["step"]: step for step in report["steps"]}


def step_catches_interrupts(repro, verb):
    """Whether the step that is under way is this verb, so far that it reports what an interrupt left."""
    for child in children_of(repro):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{child}/status").read_text())
        except (FileNotFoundError, ProcessLookupError):  # ended meanwhile: before the file was opened, or read
            continue
        if verb in words and int(caught[1], 16) >> (signal.SIGINT - 1) & 1:
            return True
    return False


class ReproTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "results"

    def tearDown(self):
        self.directory.cleanup()

    def test_all_that_can_run_here_is_run(self):
        result = flashcore("repro", "--quick", self.path, environment=NO_GPU)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        steps = steps_of(self.path)
        for name in ("info", "check-cpu", "bench-cpu"):
            self.assertEqual(steps[name]["outcome"], "done")
            self.assertEqual(json.loads((self.path / f"{name}.json").read_text())["verb"], name.split("-")[0])
            self.assertTrue((self.path / f"{name}.txt").read_text())
        for name in ("check-cuda", "check-drawn", "bench-cuda", "peers", "ladder"):
            self.assertEqual(steps[name]["outcome"], "left out")
            self.assertIn("there is no CUDA device", steps[name]["reason"])
        readme = (self.path / "README.md").read_text()
        for step in steps.values():
            self.assertIn(f"| {step['step']} | {step['outcome']} |", readme)
            self.assertIn(step["reason"], readme)
        self.assertIn("What was run (repro.json)", (self.path / "report.html").read_text())
        self.assertIn("$ uname -a\nLinux", (self.path / "machine.txt").read_text())

    def test_a_step_that_fails_says_why_and_the_others_go_on(self):
        environment = {**NO_GPU, "FLASHCORE_KERNEL": "nobody"}
        result = flashcore("repro", "--quick", self.path, environment=environment)
        self.assertEqual(result.returncode, 1)
        steps = steps_of(self.path)
        self.assertEqual(steps["check-cpu"]["outcome"], "failed")
        self.assertIn("exit status 1: there is no kernel 'nobody'", steps["check-cpu"]["reason"])
        self.assertEqual(steps["info"]["outcome"], "done")
        self.assertTrue((self.path / "report.html").exists())

    def test_an_interrupt_keeps_what_was_done(self):
        process = subprocess.Popen([FLASHCORE, "repro", self.path], env=environment_with(NO_GPU),
                                   stdout=subprocess.PIPE, text=True)
        while not step_catches_interrupts(process.pid, b"check"):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate()
        self.assertEqual(process.returncode, 130)
        steps = steps_of(self.path)
        self.assertEqual(steps["info"]["outcome"], "done")
        self.assertEqual((steps["bench-cpu"]["outcome"], steps["bench-cpu"]["reason"]), ("not run", "interrupted"))
        self.assertTrue(json.loads((self.path / "check-cpu.json").read_text())["interrupted"])
        self.assertTrue((self.path / "report.html").exists())

    def test_older_results_stay_alone(self):
        self.path.mkdir()
        (self.path / "mine").write_text("")
        result = flashcore("repro", self.path)
        self.assertEqual(result.returncode, 1)
        self.assertIn("is not empty; name a directory that is new", result.stderr)


if __name__ == "__main__":
    unittest.main()
