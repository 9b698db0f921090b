"""Threads, forks, pickles, the environment; what kernels() and explain() say."""

import inspect
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import flashcore


def draw(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def test_pythons_lock_is_open_during_a_run():
    """Nobody gives the lock away but the call itself: only then can the other thread count."""
    x = draw(1, 8, 1024, 64)
    flashcore.attention(x, x, x)
    begun, running, counted = threading.Event(), True, 0

    def work():
        nonlocal running
        begun.set()
        flashcore.attention(x, x, x)
        running = False

    thread = threading.Thread(target=work)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10)
    try:
        thread.start()
        begun.wait()
        while running:
            counted += 1
            time.sleep(0)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert counted > 0


def test_many_threads_get_their_own_results():
    inputs = [draw(1, 2, 8 + n, 16) * (n + 1) for n in range(8)]
    expected = [flashcore.attention(x, x, x, causal=True) for x in inputs]
    wrong = []

    def work(n):
        for turn in range(100):
            i = (n + turn) % len(inputs)
            found = flashcore.attention(inputs[i], inputs[i], inputs[i], causal=True)
            if not np.array_equal(found, expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_more_plans_than_are_kept():
    for length in range(1, 700):
        x = np.ones((1, 1, length, 2), "float32")
        assert flashcore.attention(x, x, x)[0, 0, -1, 0] == pytest.approx(1)


def _attend_in_child(connection, x):
    connection.send(flashcore.attention(x, x, x))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_process_can_attend(method):
    x = draw(1, 8, 300, 32)
    expected = flashcore.attention(x, x, x)  # the parent's threads are there before the fork
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    child = context.Process(target=_attend_in_child, args=(there, x))
    child.start()
    try:
        assert here.poll(60), "the child hangs"
        np.testing.assert_array_equal(here.recv(), expected)
    finally:
        child.kill()
        child.join()


def test_functions_and_answers_can_be_pickled():
    for value in (flashcore.attention, flashcore.explain, flashcore.attention_backward):
        assert pickle.loads(pickle.dumps(value)) is value
    x = draw(1, 1, 4, 8)
    explanation = flashcore.explain(x, x, x)
    assert pickle.loads(pickle.dumps(explanation)) == explanation


def test_explain_says_which_kernel_and_why_not_the_others():
    x = draw(1, 2, 40, 16)
    said = flashcore.explain(x, x, x, causal=True)
    assert said.forward.startswith("cpu_") and said.backward.endswith("_backward")
    assert [k.name for k in said.kernels] == [k.name for k in flashcore.kernels()]
    refusing = [k for k in said.kernels if not k.accepts]
    assert refusing and all(k.reason for k in refusing)
    assert f"{said.forward}: runs it" in str(said)
    packed = {"cu_seqlens_q": np.int32([0, 3]), "cu_seqlens_kv": np.int32([0, 3])}
    rows = draw(3, 2, 16)
    reasons = [
        {k.name: k.reason for k in flashcore.explain(rows, rows, rows, **packed, **more).kernels}
        for more in ({}, {"batch_invariant": True})
    ]
    assert "batch_invariant forbids" in reasons[1]["cpu_plain_decode"]
    assert "batch_invariant" not in reasons[0]["cpu_plain_decode"]
    double = x.astype("float64")
    assert flashcore.explain(double, double, double).forward == "reference"


def run_with_kernel(name, program):
    """What the program says of x, and of errors, when the environment forces that kernel."""
    program = f"import numpy as np, flashcore; x = np.ones((1, 1, 40, 4), 'float32'); {program}"
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "FLASHCORE_KERNEL": name},
        capture_output=True,
        text=True,
    )


def test_a_kernel_can_be_forced_by_the_environment():
    said = run_with_kernel("reference", "print(flashcore.explain(x, x, x).forward)")
    assert said.stdout.strip() == "reference"


def test_what_no_kernel_can_do_is_not_implemented():
    said = run_with_kernel("cpu_plain_decode", "flashcore.attention(x, x, x)")
    assert "NotImplementedError: " in said.stderr and "for at most 16 query rows" in said.stderr


def test_info():
    said = flashcore.info()
    assert said["version"] == flashcore.__version__
    assert isinstance(said["build"], str) and said["cuda_devices"] >= 0


def test_the_signature_can_be_read():
    parameters = inspect.signature(flashcore.attention).parameters
    assert list(parameters)[:3] == ["q", "k", "v"]
    assert parameters["causal"].kind is inspect.Parameter.KEYWORD_ONLY
    x = np.ones((1, 1, 2, 4), "float32")
    for name, parameter in parameters.items():  # every default is what it says
        if parameter.default is not inspect.Parameter.empty:
            flashcore.attention(x, x, x, **{name: parameter.default})
