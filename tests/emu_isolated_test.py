#!/usr/bin/env python3
"""`check --isolated` on a device that is gone when a second process would open it."""

import json
import os
import signal
import tempfile
import unittest
from pathlib import Path

from cli_tools import FLASHCORE, RunningCheck

EMULATOR = Path(FLASHCORE).resolve().parent / "../emu/libflashcore_emu.so"


class IsolatedTest(unittest.TestCase):
    def test_a_device_that_is_gone_ends_the_check(self):
        with tempfile.TemporaryDirectory() as directory:
            path, device = Path(directory) / "check.json", Path(directory) / EMULATOR.name
            device.symlink_to(EMULATOR)
            check = RunningCheck(
                "--backend", "emu", "--kernel", "sm80_prefill", "--isolated", f"--json={path}", "--filter", "features",
                environment={"FLASHCORE_EMU": str(device)},
            )
            device.unlink()
            os.kill(check.worker(), signal.SIGKILL)
            status, stdout = check.finish()
            report = json.loads(path.read_text())
            self.assertEqual(status, 1, stdout)
            self.assertIn("not run: no new process could open the device", stdout)
            self.assertIn(b"there is no CUDA device", check.progress)
            self.assertGreater(report["not_run"], 0)
            self.assertEqual((report["failed"], report["interrupted"]), (1, False))


if __name__ == "__main__":
    unittest.main()
