#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/archs.py NVCC ROOT - kernels that need Hopper's instructions compile for other devices too, as parts of a build for
several; launched there they fail."""
import os
import subprocess
import sys
import tempfile

nvcc, root = sys.argv[1:3]
failed = 0
with tempfile.TemporaryDirectory() as d:
    for name in ("ring_gemm", "ring_digits"):
        words = [nvcc, "-c", "-std=c++17", "-gencode=arch=compute_80,code=sm_80", "--keep", "--keep-dir", d, "-DUVCC_GPU_HOPPER",
                 "-diag-suppress=177", "-I" + os.path.join(root, "src"), "-I" + os.path.join(root, "include"), "-o",
                 os.path.join(d, name + ".o"), os.path.join(root, "src", "gpu", name + ".cu")]
        got = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = got.stdout if got.returncode != 0 else ""
        if got.returncode == 0:
            with open(os.path.join(d, name + ".ptx"), encoding="utf-8") as f:
                entries = [e for e in f.read().split(".entry")[1:] if "multiply" in e.split("(")[0]]
            if not entries or not all("trap;" in e for e in entries):
                said = "a kernel of Hopper's instructions does nothing there, and does not say so"
        print(f"{name} for sm_80 beside sm_90a: {said or 'right'}")
        failed += said != ""
sys.exit(failed != 0)
