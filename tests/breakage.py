"""What mutate.py and emu_mutate.py share: they break sources on purpose and expect to be told."""

import subprocess


class Failure(Exception):
    """What is wrong with a breakage, for people."""


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"does not compile: {' '.join(command)}\n{done.stderr}")


def report(jobs):
    """Prints the jobs by name as they end; returns how many failed."""
    failed = 0
    for name, job in jobs.items():
        try:
            print(f"ok      {name}: {job.result()}")
        except Failure as failure:
            failed += 1
            print(f"FAILED  {name}: {failure}")
    return failed
