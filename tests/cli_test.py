#!/usr/bin/env python3
"""The program's verbs besides `run` (cli_run_test.py): what they print, write and return."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from cli_tools import FLASHCORE, WITH_LEAKS, RunningCheck, environment_with, flashcore

VERBS = "demo run check bench kernels ladder emu resources profile tune repro report ledger info manual completion help".split()
SMALL = ["--shape", "1,2,16,8", "--seconds", "0.01"]


class CliTest(unittest.TestCase):
    def succeed(self, *words, **options):
        result = flashcore(*words, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def fail_with(self, status, *words, **options):
        result = flashcore(*words, **options)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertRegex(result.stderr, r"\Aflashcore: .*\n\Z")
        return result.stderr


class CudaTest(CliTest):
    """What the verbs of the CUDA part say on a machine without a GPU."""

    no_driver = {"FLASHCORE_CUDA_DRIVER": "/no/such/driver"}
    has_cuda = "no CUDA" not in flashcore("info").stdout

    def test_without_a_gpu_the_sentence_says_why(self):
        reason = "the CUDA driver cannot be opened" if self.has_cuda else "without its CUDA part"
        for words in (["ladder"], ["check", "--backend", "cuda"], ["bench", "--backend", "cuda"]):
            self.assertIn(reason, self.fail_with(1, *words, environment=self.no_driver))

    def test_without_the_emulator_the_sentence_says_what_to_do(self):
        if not self.has_cuda:
            return
        reason = self.fail_with(1, "emu", environment={"FLASHCORE_EMU": "/no/such/library"})
        self.assertIn("FLASHCORE_EMU=/no/such/library cannot be read", reason)
        with tempfile.TemporaryDirectory() as folder:
            reason = self.fail_with(1, "emu", executable=shutil.copy(FLASHCORE, folder))
        self.assertIn("the emulator is not built: 'cmake --build'", reason)

    def test_resources_are_held_to_their_budget(self):
        if not self.has_cuda:
            self.assertIn("without its CUDA part", self.fail_with(1, "resources"))
            return
        kernels = json.loads(self.succeed("resources", "--json"))["kernels"]
        self.assertTrue(all(kernel["within_budget"] for kernel in kernels))
        # An L4 runs all but Hopper's own, and these, of which there are others.
        larger = {re.sub("(_all)?_b?f16$", "", kernel["kernel"]) for kernel in kernels
                  if kernel["shared_bytes"] > 99 * 1024 and not kernel["kernel"].startswith("sm90_")}
        self.assertEqual(larger, {"sm80_prefill_d256_tall", "sm80_prefill_d256_wide"})
        self.assertIn("ladder_swizzle_d64", {kernel["kernel"] for kernel in kernels})
        result = flashcore("resources", "--registers", "20")
        self.assertEqual(result.returncode, 1)
        self.assertIn("OVER BUDGET", result.stdout)
        self.assertIn("no kernel's name holds 'xyz'", self.fail_with(1, "resources", "--filter", "xyz"))

    def test_a_technique_that_nobody_has_is_refused(self):
        if self.has_cuda:
            self.assertIn("techniques to leave out:", self.fail_with(2, "ladder", "--without", "magic"))
            self.assertIn("write NAME=VALUE", self.fail_with(2, "ladder", "--macro", "STAGES"))

    def test_every_technique_is_named_and_can_be_left_out(self):
        if not self.has_cuda:
            return
        sentence = self.fail_with(2, "ladder", "--without", "magic")
        named = set(re.search("leave out: (.*)", sentence)[1].split(", "))
        sources = (Path(__file__).parent.parent / "src/cuda/ladder").glob("*.cu")
        macros = {m for source in sources for m in re.findall("#ifndef USE_(.*)", source.read_text())}
        self.assertEqual(named, {macro.lower().replace("_", "-") for macro in macros})
        for technique in named:
            self.fail_with(1, "ladder", "--without", technique, environment=self.no_driver)


class HelpTest(CliTest):
    def test_every_verb_explains_itself(self):
        overview = self.succeed("--help")
        for verb in VERBS:
            self.assertRegex(overview, rf"(?m)^  {verb} ")
            text = self.succeed(verb, "--help")
            self.assertIn(f"usage: flashcore {verb}", text)
            self.assertIn(f"  flashcore {verb}", text.split("examples:")[1])
            self.assertEqual(text, self.succeed("help", verb))
            self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_version(self):
        version = self.succeed("--version")
        self.assertRegex(version, r"\Aflashcore \d+\.\d+\.\d+\n\Z")
        self.assertIn(version.split()[1], self.succeed("info"))

    def test_no_verb_is_a_wrong_command_line(self):
        result = flashcore()
        self.assertEqual(result.returncode, 2)
        self.assertIn("usage:", result.stdout)

    def test_mistakes_name_their_remedy(self):
        for words, remedy in (
            (["chekc"], "did you mean 'flashcore check'?"),
            (["frobnicate"], "'flashcore --help' lists them"),
            (["help", "rum"], "did you mean 'flashcore run'?"),
            (["bench", "--casual"], "did you mean --causal?"),
            (["run", "--q-scal=x"], "did you mean --q-scale?"),
            (["bench", "--out", "x"], "'flashcore run' has"),
            (["check", "--zzzzz"], "'flashcore check --help' lists them"),
            (["kernels", "-causal"], "--causal"),
            (["kernels", "extra"], "does not know what to do with 'extra'"),
            (["run", "one", "two"], "'one' and 'two'"),
            (["bench", "--shape", "1,2,3"], "'1,2,3' is not four numbers"),
            (["bench", "--shape", "1,2,3,4,5"], "four numbers"),
            (["bench", "--shape", "1,0,3,4"], "four numbers"),
            (["bench", *33 * ["--shape", "1,1,1,1"]], "one of the first 32 shapes"),
            (["bench", "--heads", "3", *2 * ["--shape", "1,1,1,1"]], "several --shape go without"),
            (["bench", *2 * ["--shape", "1,1,1,1"], "--batch", "2"], "several --shape go without"),
            (["bench", "--batch"], "--batch needs an argument: --batch N"),
            (["bench", "--batch", "--heads"], "--batch needs an argument"),
            (["bench", "--batch", "1x"], "'1x' is not a whole number"),
            (["bench", "--batch", "99999999999"], "1 to 2147483647"),
            (["bench", "--causal=1"], "--causal takes no argument"),
            (["bench", "--type", "f8"], "'f8' is none of f32 f16 bf16"),
            (["bench", "--layout", "hbsd"], "'hbsd' is none of bhsd|bshd"),
            (["bench", "--set", ""], "'' is none of mission|standard"),
            (["bench", "--set", "mission", "--batch", "1"], "give one of them"),
            (["bench", "--seconds", "0"], "above 0"),
            (["bench", "--threads", "0"], "1 to 65536"),
            (["bench", "--with", "mask,salt"], "'salt' is not a list of"),
            (["kernels", "--window", "3"], "'3' is not two numbers"),
            (["kernels", "--scale", "much"], "'much' is not a number"),
            (["run", "--seed", "-1"], "'-1' is not a whole number"),
            (["check", "--case", "no such case"], "--list"),
        ):
            with self.subTest(words=words):
                self.assertIn(remedy, self.fail_with(2, *words))


class GeneratedTextTest(CliTest):
    def flags_of(self, verb):
        return re.findall(r"(?m)^  --([a-z-]+)", self.succeed(verb, "--help"))

    def test_manual_has_every_flag_of_every_verb(self):
        sections = re.split(r"(?m)^\.SS flashcore (\w+)", self.succeed("manual"))
        found = dict(zip(sections[1::2], sections[2::2]))
        self.assertEqual(list(found), VERBS)
        for verb in VERBS:
            flags = re.findall(r"(?m)^\\fB\\-\\-(\S+?)\\fR", found[verb])
            self.assertEqual([flag.replace("\\-", "-") for flag in flags], self.flags_of(verb))

    def test_manual_is_a_clean_page(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        result = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww"],
            input=self.succeed("manual"), capture_output=True, text=True, check=True,
        )
        self.assertEqual(result.stderr, "")
        self.assertIn("FLASHCORE(1)", result.stdout)

    def complete(self, *words):
        script = """
            . /dev/stdin
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _flashcore
            printf '%s\\n' "${COMPREPLY[@]}"
        """
        result = subprocess.run(
            ["bash", "-c", script, "bash", *words],
            input=self.succeed("completion"), capture_output=True, text=True, check=True,
        )
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def test_completion_knows_verbs_flags_and_choices(self):
        self.assertEqual(self.complete("flashcore", ""), VERBS + ["--help", "--version"])
        self.assertEqual(self.complete("flashcore", "help", "ke"), ["kernels"])
        self.assertEqual(self.complete("flashcore", "bench", "--layout", ""), ["bhsd", "bshd"])
        self.assertEqual(self.complete("flashcore", "run", "--type", "b"), ["bf16"])
        self.assertIn("reference", self.complete("flashcore", "check", "--kernel", ""))
        for verb in VERBS:
            flags = ["--" + flag for flag in self.flags_of(verb)]
            self.assertEqual(self.complete("flashcore", verb, "--"), flags)


class ReportTest(CliTest):
    def test_kernels_say_who_runs_and_who_does_not(self):
        text = self.succeed("kernels")
        self.assertIn("B=1 H=8 S=512 D=64 f16", text)
        self.assertRegex(text, r"(?m)^reference +forward +(runs it|accepts)")
        report = json.loads(self.succeed("kernels", "--json"))
        self.assertEqual(sum(k["chosen"] and k["direction"] == "forward" for k in report["kernels"]), 1)
        for kernel in report["kernels"]:
            self.assertEqual(kernel["accepts"], kernel["reason"] == "")

    def test_problem_flags_reach_the_problem(self):
        words = "--batch 2 --heads 6 --kv-heads 3 --q-length 7 --kv-length 9 --head-dim 8".split()
        words += "--value-dim 4 --type bf16 --causal --with alibi,paged".split()
        problem = json.loads(self.succeed("kernels", *words, "--json"))["problem"]
        self.assertEqual(problem.pop("text"), "B=2 H=6/3 S=7/9 D=8/4 bf16 causal alibi paged")
        self.assertEqual(
            list(problem.values()), [2, 6, 3, 7, 9, 8, 4, "bf16", True], problem
        )
        self.assertIn("does not divide", self.fail_with(1, "kernels", "--kv-heads", "3"))
        self.assertIn("head_dim = 577", self.fail_with(1, "kernels", "--head-dim", "577"))

    def test_info_shows_the_environment(self):
        text = self.succeed("info", environment={"FLASHCORE_KERNEL": "reference"})
        self.assertRegex(text, r"environment +FLASHCORE_KERNEL=reference")
        report = json.loads(self.succeed("info", "--json"))
        self.assertEqual(report["environment"], [])
        self.assertEqual(report["devices"][0]["type"], "cpu")
        self.assertTrue(report["devices"][0]["usable"])

    def test_demo_is_right_and_timed(self):
        report = json.loads(self.succeed("demo", "--json", "--seconds", "0.01"))
        device = report["devices"][0]
        self.assertEqual(device["problem"]["text"], "B=1 H=8 S=512 D=64 f16")
        self.assertEqual(device["check"], "passed")
        self.assertLess(device["max_error"], 1e-3)
        self.assertLessEqual(device["p10_us"], device["p50_us"])
        self.assertLessEqual(device["p50_us"], device["p90_us"])

    def test_json_goes_where_it_is_told(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "info.json"
            for words in ([f"--json={path}"], ["--json", path]):
                self.assertIn("version", self.succeed("info", *words))
                self.assertIn("version", json.loads(path.read_text()))
                path.unlink()
            self.assertIn("cannot write", flashcore("info", "--json", path / "x").stderr)

    def test_a_full_disk_is_noticed(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full")
        with open("/dev/full", "w") as full:
            result = subprocess.run(
                [FLASHCORE, "info"], stdout=full, stderr=subprocess.PIPE,
                env=environment_with({}),
            )
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"cannot write the output", result.stderr)


class BenchTest(CliTest):
    def test_one_shape(self):
        text = self.succeed("bench", *SMALL)
        self.assertRegex(text, r"given +B=1 H=2 S=16 D=8 f16 +\w+ +[\d.]+ (us|ms|s) ")
        report = json.loads(self.succeed("bench", *SMALL, "--causal", "--json"))
        (row,) = report["rows"]
        self.assertEqual(row["check"], "passed")
        self.assertGreaterEqual(row["calls"], 3)
        self.assertLessEqual(row["p10_us"], row["p50_us"])
        self.assertGreaterEqual(row["spread"], 0)
        flops = 2 * 2 * (8 + 8) * (16 * 17 // 2)
        self.assertAlmostEqual(row["tflops"], flops / row["p50_us"] * 1e-6, delta=row["tflops"] * 1e-6)
        moved = 4 * 2 * 16 * 8 * 2
        self.assertAlmostEqual(
            row["gigabytes_per_second"], moved / row["p50_us"] * 1e-3, delta=moved * 1e-9
        )

    def test_each_of_several_shapes_is_a_row(self):
        words = ["--shape", "1,2,16,8", "--shape", "2,4,8,16", "--kv-heads", "2", "--seconds", "0.01"]
        report = json.loads(self.succeed("bench", *words, "--json"))
        sizes = ("batch", "q_heads", "kv_heads", "q_length", "kv_length", "head_dim")
        self.assertEqual([(row["name"], *(row["problem"][size] for size in sizes)) for row in report["rows"]],
                         [("1,2,16,8", 1, 2, 2, 16, 16, 8), ("2,4,8,16", 2, 4, 2, 8, 8, 16)])
        self.assertEqual([row["check"] for row in report["rows"]], ["passed", "passed"])
        self.assertRegex(self.succeed("bench", *words), r"(?s)\n1,2,16,8 +B=1 H=2 .*\n2,4,8,16 +B=2 H=4/2 .*roof:")

    def test_calls_without_lse(self):
        words = [*SMALL, "--without-lse"]
        self.assertRegex(self.succeed("bench", *words), r"D=8 f16 without LSE +\w+ +[\d.]+ (us|ms|s) ")
        for lse, without in ([], ""), (["--without-lse"], "LSE"):
            (row,) = json.loads(self.succeed("bench", *SMALL, *lse, "--json"))["rows"]
            self.assertEqual((row["check"], row["without"]), ("passed", without))
            self.assertEqual("lse_error" in row, not without)
            self.assertGreater(row["p50_us"], 0)
        self.assertIn("computed from the LSE", self.fail_with(2, "bench", *words, "--backward"))

    def test_the_roof_is_measured(self):
        words = ["--shape", "1,2,256,64", "--type", "f32", "--seconds", "0.2"]
        text = self.succeed("bench", *words)
        self.assertRegex(text, r"roof: [\d.]+ TFLOP/s, [\d.]+ GB/s read, measured on this device\n")
        report = json.loads(self.succeed("bench", *words, "--json"))
        (row,) = report["rows"]
        self.assertIs(report["most_measured"], True)
        by_products = row["operations"] / report["most_tflops"] * 1e-6
        by_memory = row["bytes"] / report["most_gigabytes_per_second"] * 1e-3
        self.assertAlmostEqual(row["part_of_roof"], max(by_products, by_memory) / row["p50_us"], delta=1e-5)
        self.assertGreater(row["part_of_roof"], 0)

    def test_gradients(self):
        words = [*SMALL, "--backward", "--kernel", "cpu_plain_backward"]
        self.assertIn("whole backward calls", self.succeed("bench", *words))
        (row,) = json.loads(self.succeed("bench", *words, "--causal", "--json"))["rows"]
        self.assertEqual((row["direction"], row["kernel"]), ("backward", "cpu_plain_backward"))
        self.assertGreater(row["max_error"], 0)
        flops = 2 * 2 * (3 * 8 + 2 * 8) * (16 * 17 // 2)
        self.assertAlmostEqual(row["tflops"], flops / row["p50_us"] * 1e-6, delta=row["tflops"] * 1e-6)
        moved = (4 + 4) * 2 * 16 * 8 * 2
        self.assertAlmostEqual(
            row["gigabytes_per_second"], moved / row["p50_us"] * 1e-3, delta=moved * 1e-9
        )

    def test_gradients_without_a_kernel_are_not_timed(self):
        words = [*SMALL, "--backward", "--type", "f64", "--kernel", "cpu_plain_backward"]
        text = flashcore("bench", *words)
        self.assertEqual(text.returncode, 1, text.stdout)
        self.assertIn("no kernel for this direction accepts it", text.stdout)

    def test_every_input_can_be_timed(self):
        for words in ("alibi,bias,mask,sinks,kv-lengths", "packed", "paged"):
            for layout in ("bhsd", "bshd"):
                self.succeed("bench", *SMALL, "--with", words, "--layout", layout)

    def test_an_unknown_kernel_is_not_timed(self):
        self.assertIn("there is no kernel 'x'", self.fail_with(1, "bench", *SMALL, "--kernel", "x"))

    def test_an_absent_device_is_named(self):
        if json.loads(self.succeed("info", "--json"))["devices"][-1]["type"] == "cuda":
            self.skipTest("a CUDA device is here")
        self.assertIn("CUDA device", self.fail_with(1, "bench", *SMALL, "--backend", "cuda"))


class LeakTest(CliTest):
    def test_verbs_give_their_memory_back(self):
        one_case = self.succeed("check", "--list").splitlines()[0]
        for words in (["kernels"], ["info"], ["bench", *SMALL], ["check", "--case", one_case]):
            self.succeed(*words, environment=WITH_LEAKS)


class CheckTest(CliTest):
    def names(self, *words):
        return self.succeed("check", "--list", *words).splitlines()

    def test_list_and_filter(self):
        names = self.names()
        self.assertGreater(len(names), 100)
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(self.names("--case", names[5]), [names[5]])
        by_part = self.names("--filter", names[5])
        self.assertIn(names[5], by_part)
        self.assertIn(names[5], self.names("--filter", names[5][:-1] + "?"))
        self.assertEqual(self.names("--filter", "*"), names)

    def test_a_case_passes_and_is_reported(self):
        name = self.names()[0]
        text = self.succeed("check", "--case", name)
        self.assertIn("1 passed, 0 failed, 0 refused", text)
        report = json.loads(self.succeed("check", "--case", name, "--json"))
        self.assertEqual(
            [report[key] for key in ("cases", "passed", "failed", "refused", "not_run")],
            [1, 1, 0, 0, 0],
        )
        (result,) = report["results"]
        self.assertEqual((result["name"], result["outcome"]), (name, "passed"))
        self.assertLessEqual(result["max_error"], result["tolerance"])

    def test_only_gradients(self):
        names = self.names("--backward")
        self.assertTrue(set(names) < set(self.names()))
        words = ["--backward", "--kernel", "cpu_plain_backward", "--json", "--filter"]
        (result,) = json.loads(self.succeed("check", *words, "q1-kv1-f32"))["results"]
        self.assertEqual(result["backward_kernel"], "cpu_plain_backward")
        refused = flashcore("check", *words, "all1-f64")
        self.assertEqual(json.loads(refused.stdout)["refused"], 1)
        self.assertIn("nothing was checked", refused.stderr)

    def broken_by(self, signal_number, sentence, *words):
        """A case whose process is stopped or killed fails alone; the rest is checked by another process."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "check.json"
            check = RunningCheck("--isolated", f"--json={path}", "--filter", "features", *words)
            os.kill(check.worker(), signal_number)
            status, stdout = check.finish()
            report = json.loads(path.read_text())
            self.assertEqual(status, 1, stdout)
            self.assertEqual((report["cases"], report["not_run"]), (len(self.names("--filter", "features")), 0))
            (failed,) = [result for result in report["results"] if result["outcome"] == "failed"]
            self.assertIn(sentence, failed["reason"])
            self.assertEqual(len({result["name"] for result in report["results"]}), report["cases"])

    def test_a_crash_fails_alone(self):
        self.broken_by(signal.SIGKILL, "its process was ended by signal 9 (Killed)")

    def test_a_hang_fails_alone(self):
        self.broken_by(signal.SIGSTOP, "no answer in 5 s: its process was stopped", "--limit", "5")

    def test_isolated_cases_give_the_same_results(self):
        here = json.loads(self.succeed("check", "--sample", "10", "--json"))
        there = json.loads(self.succeed("check", "--sample", "10", "--isolated", "--json"))
        for report in (here, there):
            report.pop("seconds")
            for result in report["results"]:
                result.pop("seconds")
        self.assertEqual(here, there)
        self.assertIn("there is no kernel 'x'", self.fail_with(1, "check", "--isolated", "--kernel", "x"))

    def test_drawn_cases_are_found_by_their_number(self):
        drawn = self.names("--random", "5", "--seed", "7")
        self.assertEqual([name.split("-")[1] for name in drawn], ["7", "8", "9", "10", "11"])
        self.assertEqual(self.names("--random", "7")[6], drawn[0])
        for name in ("random-9", drawn[2]):
            self.assertEqual(self.names("--case", name), [drawn[2]])
        report = json.loads(self.succeed("check", "--random", "5", "--seed", "7", "--json"))
        self.assertEqual([result["name"] for result in report["results"]], drawn)
        self.assertIn("--random", self.fail_with(2, "check", "--seed", "7"))
        self.assertIn("more than 100000", self.fail_with(2, "check", "--random", "100001"))
        self.assertIn("no case matches", self.fail_with(2, "check", "--case", "random-9-not-so"))
        self.assertIn("no case matches", self.fail_with(2, "check", "--case", "random-"))

    def test_an_interrupt_reports_what_was_done(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "check.json"
            check = RunningCheck(f"--json={path}")
            check.process.send_signal(signal.SIGINT)
            status, stdout = check.finish()
            self.assertEqual(status, 130, stdout)
            self.assertIn("not run: interrupted", stdout)
            report = json.loads(path.read_text())
            self.assertTrue(report["interrupted"])
            self.assertGreater(report["cases"], 0)
            self.assertEqual(report["cases"], len(report["results"]))
            self.assertEqual(report["cases"] + report["not_run"], len(self.names()))


if __name__ == "__main__":
    unittest.main()
