"""Results for the tests of `flashcore report`: real ones of this machine, and recorded shapes of those
that need a GPU, with the numbers of docs/ladder.md and docs/kernels/sm80.md."""

import json
from pathlib import Path

from cli_tools import flashcore

MISSION = "B=1 H=8 S=512 D=64 f16"
RUNGS = {"unfused": 97.22, "fused": 77.88, "tensor_scores": 66.26, "tensor_both": 53.75, "warp_softmax": 69.48}


def problem(text=MISSION):
    return {"text": text, "head_dim": 64}


def recorded_ladder():
    rows, before = [], None
    for rung, time in RUNGS.items():
        rows.append({"rung": rung, "summary": f"what <{rung}> does & why", "over": before, "macro": None,
                     "speed_up": RUNGS[before] / time if before else 0, "registers": 96,
                     "shared_bytes": 16000, "problem": problem(), "p50_us": time, "plain_p50_us": time + 4})
        before = rung
    return {"verb": "ladder", "device": "NVIDIA H200", "rungs": rows}


def recorded_bench():
    rows = [{"name": "mission", "kernel": "sm80_latency", "check": "passed", "problem": problem(),
             "p10_us": 5.5, "p50_us": 5.6, "p90_us": 5.7, "operations": 536870912, "bytes": 2097152},
            {"name": "slow", "kernel": "sm80_prefill", "check": "passed", "problem": problem("B=4"),
             "p10_us": 800, "p50_us": 818, "p90_us": 820, "operations": 3e11, "bytes": 3e9},
            {"name": "left", "kernel": None, "check": "refused", "problem": problem("B=5"), "reason": "too long"}]
    return {"verb": "bench", "device": "NVIDIA H200", "most_tflops": 1070, "most_gigabytes_per_second": 4800,
            "most_measured": True, "rows": rows}


def recorded_peers():
    rows = [{"peer": "cuDNN", "problem": problem(), "p50_us": 9.2},
            {"peer": "FlashAttention-2", "problem": problem(), "p50_us": 9.9},
            {"peer": "cuDNN", "problem": problem("B=4"), "p50_us": 500},
            {"peer": "elsewhere", "problem": problem("B=77"), "p50_us": 1}]
    return {"verb": "peers", "version": "PyTorch 2.11", "device": "NVIDIA H200", "rows": rows}


def recorded_tune():
    candidates = []
    for stages in "234":
        for tile in ("32", "64", "128"):
            timed = (stages, tile) != ("4", "128")
            candidates.append({"text": f"STAGES={stages} KV_TILE={tile}", "outcome": "timed" if timed else "pruned",
                               "macros": {"STAGES": stages, "KV_TILE": tile},
                               "p50_us": 5 + int(stages) + 64 / int(tile) if timed else None,
                               "reason": "" if timed else "114688 bytes of shared memory, 101376 are there"})
    axes = [{"macro": "STAGES", "values": ["2", "3", "4"]}, {"macro": "KV_TILE", "values": ["32", "64", "128"]}]
    return {"verb": "tune", "device": "NVIDIA H200", "kernel": "sm80_prefill", "problem": problem(),
            "best": "STAGES=2 KV_TILE=128", "axes": axes, "candidates": candidates}


def write_results(directory):
    """A result of every kind that has a section, in files of their own."""
    directory = Path(directory)
    own = {"info": ["info"], "check": ["check", "--filter", "q1-kv1-f*"],
           "bench-cpu": ["bench", "--shape", "1,2,16,8", "--seconds", "0.01"]}
    if flashcore("resources").returncode == 0:
        own["resources"] = ["resources"]
    for name, words in own.items():
        result = flashcore(*words, f"--json={directory / name}.json")
        assert result.returncode == 0, result.stderr
    recorded = {"ladder": recorded_ladder(), "bench": recorded_bench(), "peers": recorded_peers(),
                "tune": recorded_tune()}
    for name, content in recorded.items():
        (directory / f"{name}.json").write_text(json.dumps(content))
