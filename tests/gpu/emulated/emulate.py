#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""emulate.py - a file of kernels as C++ for device.h: emulate.py IN OUT

Shared memory becomes static and is said to the device, launches become calls, and launch bounds are
checked by the kernel that has them. All else stays as it is, line by line.
"""
import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
text = text.replace("#include <cuda_pipeline.h>", '#include "device.h"')
if '"device.h"' not in text:
    text = text.replace("#include <string.h>", '#include "device.h"')
text, shared = re.subn(r"^( +)__shared__ (__align__\(\d+\) )?([\w<>]+) (\w+)((?:\[[^;]*\])?);",
                       r"\1static \2\3 \4\5; emulated_share(&\4, sizeof \4);", text, flags=re.M)
text, launches = re.subn(r"(\w+(?:<\w+(?:, \w+)*>)?)<<<(.*?)>>>\(", r"emulate(\1, \2)(", text,
                         flags=re.S)
text, bounds = re.subn(r"__launch_bounds__\((.*?)\)(\s+\w+\([^{]*?\) \{)", r"\2 emulated_bounds(\1);",
                       text, flags=re.S)
assert shared and launches and bounds and "<<<" not in text and "__launch_bounds__" not in text
open(sys.argv[2], "w", encoding="utf-8").write(f'#line 1 "{sys.argv[1]}"\n' + text)
