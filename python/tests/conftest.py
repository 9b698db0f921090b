"""What all tests share: the numbers, the truth, and which packages have to be there."""

import importlib
import os
import sys
import zlib

import numpy as np
import pytest

# JAX_PLATFORMS=cuda,cpu lets JAX have the GPU, for which most of its tests ask too much yet.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# What a test run must not skip: FLASHCORE_REQUIRE=torch,jax makes their absence a failure.
REQUIRED = [name for name in os.environ.get("FLASHCORE_REQUIRE", "").split(",") if name]


def pytest_sessionstart(session):
    for name in REQUIRED:
        importlib.import_module(name)


@pytest.fixture(autouse=True)
def seeded(request):
    """PyTorch's random numbers depend on the test's name alone."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(zlib.crc32(request.node.name.encode()))


@pytest.fixture
def rng(request):
    """Random numbers that depend on the test's name alone."""
    return np.random.default_rng(list(request.node.name.encode()))


def pytest_generate_tests(metafunc):
    """Tests that take a device run on every one there is."""
    if "device" in metafunc.fixturenames:
        torch = importlib.import_module("torch")
        metafunc.parametrize("device", ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
