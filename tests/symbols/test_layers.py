#!/usr/bin/env python3
"""test_layers.py [CC...]: plants each thing that layers.py refuses in a small tree of its own,
builds it, and sees it refused; and sees the same tree pass without it."""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

LAYERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.py")
CC = ["cc"]

TREE = {
    "include/uvcc/types.h": "#include <stdint.h>\n",
    "src/proto/bytes.h": "int uvcci_bytes(void);\n",
    "src/proto/bytes.c": '#include "proto/bytes.h"\nint uvcci_bytes(void) { return 1; }\n',
    "src/proto/frame.h": "int uvcci_frame(void);\n",
    "src/proto/frame.c": '#include "proto/frame.h"\n#include "proto/bytes.h"\n'
                         "int uvcci_frame(void) { return uvcci_bytes(); }\n",
    "src/exec/base/arena.h": "int uvcci_arena(void);\n",
    "src/exec/base/arena.c": '#include "exec/base/arena.h"\n#include "proto/frame.h"\n'
                             "int uvcci_arena(void) { return uvcci_frame(); }\n",
    "src/exec/compute/queue.h": "int uvcci_queue(void);\n",
    "src/exec/compute/queue.c": '#include "exec/compute/queue.h"\n'
                                "int uvcci_queue(void) { return 2; }\n",
    "src/exec/program/op_class.h": "const int *uvcci_op_class(int code);\n"
                                   "extern const int uvcci_op_count;\n",
    "src/exec/program/checks.c": '#include "exec/program/op_class.h"\n'
                                 '#include "exec/base/arena.h"\n'
                                 "int uvcci_checks(void);\n"
                                 "int uvcci_checks(void) "
                                 "{ return *uvcci_op_class(uvcci_arena()); }\n",
    "src/exec/ops/table.c": '#include "exec/program/op_class.h"\nint uvcci_other(void);\n'
                            "int uvcci_checks(void);\nconst int uvcci_op_count = 1;\n"
                            "int uvcci_other(void) { return uvcci_checks(); }\n"
                            "const int *uvcci_op_class(int code) "
                            "{ return code < uvcci_op_count ? 0 : &uvcci_op_count; }\n",
    "src/exec/session/step.h": "int uvcci_step(void);\n",
    "src/exec/session/step.c": '#include "exec/session/step.h"\n'
                               "int uvcci_step(void) { return 3; }\n",
    "tools/tool.h": "int tool(void);\n",
    "tools/tool.c": '#include "tool.h"\n#include <uvcc/types.h>\nint tool(void) { return 0; }\n',
}


class Layers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.objects = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.objects)

    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        for path, text in TREE.items():
            self.write(path, text)

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def add(self, path, text):
        """More lines at a file's end."""
        with open(os.path.join(self.root, path), "a", encoding="utf-8") as f:
            f.write(text)

    def compiled(self, path):
        """The object file of a source: most tests change one, and no header that has code."""
        with open(path, encoding="utf-8") as f:
            text = os.path.relpath(path, self.root) + f.read()
        name = hashlib.sha256(text.encode()).hexdigest()
        made = os.path.join(self.objects, name)
        if not os.path.exists(made):
            subprocess.run([*CC, "-w", "-I", os.path.join(self.root, "src"), "-I",
                            os.path.join(self.root, "include"), "-c", path, "-o", made], check=True)
        return made

    def archive(self, part):
        """The archive of src/PART, its members named as meson names them."""
        objects = []
        top = os.path.join(self.root, "src", part)
        for folder, _, names in os.walk(top):
            for name in sorted(names):
                if not name.endswith(".c"):
                    continue
                path = os.path.join(folder, name)
                member = os.path.relpath(path, top).replace("/", "_") + ".o"
                shutil.copy(self.compiled(path), os.path.join(self.root, member))
                objects.append(member)
        archive = f"libuvcc_{part}.a"
        subprocess.run(["ar", "rcs", archive, *objects], cwd=self.root, check=True)
        return os.path.join(self.root, archive)

    def layers(self, link=True):
        archives = [self.archive("exec"), self.archive("proto")] if link else []
        said = subprocess.run([sys.executable, LAYERS, self.root, *archives], capture_output=True,
                              text=True)
        return said.returncode, said.stdout + said.stderr

    def refused(self, *texts, link=True):
        status, said = self.layers(link)
        self.assertEqual(status, 1, said)
        for text in texts:
            self.assertIn(text, said)

    def test_passes(self):
        status, said = self.layers()
        self.assertEqual(status, 0, said)

    def test_upward_include(self):
        self.add("src/exec/base/arena.c", '#include "exec/program/op_class.h"\n')
        self.refused('src/exec/base/arena.c:4 includes "exec/program/op_class.h"',
                     "base may know no other room", link=False)

    def test_include_beside(self):
        self.add("src/exec/program/checks.c", '#include "exec/compute/queue.h"\n')
        self.refused("program may know base, primitives", link=False)

    def test_session_includes_compute(self):
        self.add("src/exec/session/step.c", '#include "exec/compute/queue.h"\n')
        self.refused("a session never computes", link=False)

    def test_session_calls_compute(self):
        self.add("src/exec/session/step.c", "int uvcci_queue(void);\nint uvcci_more(void);\n"
                 "int uvcci_more(void) { return uvcci_queue(); }\n")
        self.refused("exec/session/step needs uvcci_queue of exec/compute/queue",
                     "a session never computes")
        self.assertEqual(self.layers(link=False)[0], 0)  # the includes alone do not tell

    def test_symbol_from_above(self):
        self.add("src/exec/base/arena.c", "int uvcci_step(void);\nint uvcci_more(void);\n"
                 "int uvcci_more(void) { return uvcci_step(); }\n")
        self.refused("exec/base/arena needs uvcci_step of exec/session/step")

    def test_proto_uses_exec(self):
        self.add("src/proto/bytes.c", "int uvcci_step(void);\nint uvcci_more(void);\n"
                 "int uvcci_more(void) { return uvcci_step(); }\n")
        self.refused("src/proto never uses src/exec")

    def test_circle_of_includes(self):
        self.add("src/proto/bytes.h", '#include "proto/frame.h"\n')
        self.refused("a circle of modules by includes: proto/bytes, proto/frame", link=False)

    def test_circle_through_a_header(self):
        self.write("src/proto/both.h", '#include "proto/frame.h"\n')
        self.add("src/proto/bytes.h", '#include "proto/both.h"\n')
        self.refused("a circle of modules by includes: proto/bytes, proto/frame",
                     'includes "proto/both.h", that brings in proto/frame.h', link=False)

    def test_circle_of_symbols(self):
        self.add("src/proto/bytes.c", "int uvcci_frame(void);\nint uvcci_more(void);\n"
                 "int uvcci_more(void) { return uvcci_frame(); }\n")
        self.refused("a circle of modules by symbols: proto/bytes, proto/frame")

    def test_inversion_of_another_symbol(self):
        self.add("src/exec/program/checks.c", "int uvcci_other(void);\nint uvcci_more(void);\n"
                 "int uvcci_more(void) { return uvcci_other(); }\n")
        self.refused("exec/program/checks needs uvcci_other of exec/ops/table",
                     "one symbol that src/exec/program/op_class.h declares")

    def test_inversion_of_two_symbols(self):
        self.add("src/exec/program/checks.c", "int uvcci_more(void);\n"
                 "int uvcci_more(void) { return uvcci_op_count; }\n")
        self.refused("exec/program/checks needs uvcci_op_count of exec/ops/table")

    def test_inversion_is_programs_alone(self):
        self.add("src/exec/base/arena.c", "const int *uvcci_op_class(int code);\n"
                 "int uvcci_more(void);\nint uvcci_more(void) { return *uvcci_op_class(1); }\n")
        self.refused("exec/base/arena needs uvcci_op_class of exec/ops/table")

    def test_inversion_is_no_include(self):
        self.write("src/exec/ops/table.h", "int uvcci_other(void);\n")
        self.add("src/exec/program/checks.c", '#include "exec/ops/table.h"\n')
        self.refused('src/exec/program/checks.c:5 includes "exec/ops/table.h"', link=False)

    def test_unknown_room(self):
        self.write("src/exec/attic/box.c", '#include "exec/base/arena.h"\n')
        self.refused("attic is no room", link=False)

    def test_lists(self):
        for path, line, text in (
                ("include/uvcc/types.h", "#include <stdio.h>", "an installed header includes"),
                ("src/proto/bytes.c", "#include <stdlib.h>", "src/proto includes"),
                ("src/proto/bytes.c", '#include "bytes.h"', "src/proto includes"),
                ("src/exec/base/arena.c", '#include "arena.h"', "src/exec includes"),
                ("tools/tool.c", '#include "../src/proto/bytes.h"', "hosts and adapters"),
                ("tools/tool.c", "#include <proto/bytes.h>", "hosts and adapters")):
            with self.subTest(line=line, path=path):
                self.add(path, line + "\n")
                self.refused(text, link=False)
                self.write(path, TREE[path])


if __name__ == "__main__":
    CC = sys.argv[1:] or CC
    if shutil.which("nm") is None or shutil.which("ar") is None:
        print("no nm or ar: skipped")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
