#!/usr/bin/env python3
"""test_tidy.py TIDY: plants each fault that scripts/tidy is for in a small tree of its own and sees
it named with its file and line; and sees the same tree pass without it."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TIDY = sys.argv[1] if len(sys.argv) > 1 else "scripts/tidy"
STYLE = os.path.join(os.path.dirname(os.path.abspath(TIDY)), "..", ".clang-format")
# What looks at files one by one.
EACH_FILE = [w for c in ("columns", "functions", "files", "includes", "openings", "todos",
                         "comments") for w in ("--check", c)]
LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */"
ARENA = "src/exec/base/arena.c"
TEST = "tests/unit/test_arena.c"
TREE = {
    ARENA: r"""/* arena.c - memory by lifetime, with limits that hold for all of it. */
#include <assert.h>

#include "exec/base/arena.h"
#include "proto/bytes.h"

#define EACH(x)                                                                                    \
    do {                                                                                           \
        use(x); /* { */                                                                            \
    } while (0)

static const char *brace(int c) {
    assert(c != 0);
    return c == '{' ? "}" : "{ /* \"";
}
""",
    TEST: """#include "exec/base/arena.h"

/* Pools reuse what they were given and stay under their limit. */
int main(void) {
    return 0;
}
""",
}


def function(lines, name="grow"):
    """A function of so many lines."""
    return "\n" + f"static int {name}(int x) {{\n" + "    x++;\n" * (lines - 3) + \
        "    return x;\n}\n"


class Tidy(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copy(STYLE, os.path.join(self.root, ".clang-format"))
        for path, text in TREE.items():
            self.write(path, text)

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def add(self, path, text):
        self.write(path, TREE[path] + text)

    def tidy(self, *args):
        run = subprocess.run([sys.executable, TIDY, "--root", self.root, *args],
                             capture_output=True, text=True, cwd=self.root)
        return run.returncode, run.stdout + run.stderr

    def refused(self, *texts, args=()):
        status, said = self.tidy(*(args or EACH_FILE))
        self.assertEqual(status, 1, said)
        for text in texts:
            self.assertIn(text, said)
        self.assertIn(f" {len(texts)} faults", said)

    def passes(self, *args):
        status, said = self.tidy(*(args or EACH_FILE))
        self.assertEqual(status, 0, said)

    def test_passes(self):
        self.passes()

    def test_columns(self):
        self.add(ARENA, f"/* {'x' * 94} */\n/* {'y' * 95} */\n/* {'é' * 94} */\n")
        self.refused(f"{ARENA}:17: a line of 101 columns")

    def test_tab(self):
        self.add(ARENA, "\t\n")
        self.refused(f"{ARENA}:16: a tab")

    def test_long_function(self):
        self.add(ARENA, "\n/* It grows. */" + function(70))
        self.passes()
        self.add(ARENA, "\n/* It grows. */" + function(80))
        self.refused(f"{ARENA}:18: grow has 80 lines: at most 70")

    def test_long_function_over_several_lines(self):
        head = "\n/* It grows. */\nstatic int grow(int x,\n                int y) {\n"
        self.add(ARENA, head + "    x += y;\n" * 68 + "}\n")
        self.refused(f"{ARENA}:18: grow has 71 lines")

    def test_long_function_after_others(self):
        self.add(ARENA, "\nstruct pair {\n    int a, b;\n};\nstatic int table[] = {\n    1,\n};\n"
                 "#ifdef __cplusplus\nextern \"C\" {\n#endif\n" + function(5, "short_one") +
                 "static struct pair one = {\n    .a = 1, .b = 2};\n/* It grows. */" + function(71))
        self.refused(f"{ARENA}:35: grow has 71 lines")

    def test_long_function_of_a_test(self):
        self.add(TEST, function(130))
        self.passes()
        self.add(TEST, function(131))
        self.refused(f"{TEST}:8: grow has 131 lines: at most 130")

    def test_long_file(self):
        self.add(ARENA, "\n/* Empty lines follow. */\n" + "\n" * 883)
        self.passes()
        self.add(ARENA, "\n/* Empty lines follow. */\n" + "\n" * 884)
        self.refused(f"{ARENA}:901: a file of 901 lines")

    def test_includes(self):
        self.add(ARENA, '#include "arena.h"\n#include "exec/arena.h"\n#include <proto/bytes.h>\n'
                 "#include <string.h>\n")
        self.refused(f'{ARENA}:16: "arena.h"', f'{ARENA}:17: "exec/arena.h"',
                     f"{ARENA}:18: <proto/bytes.h>")

    def test_no_opening(self):
        for name in ("", "pool.c - ", "src/base/arena.c - "):
            self.write(ARENA, TREE[ARENA].replace("arena.c - ", name))
            self.refused(f"{ARENA}:1: no opening")
        self.write(ARENA, TREE[ARENA].replace("arena.c", "exec/base/arena.c"))
        self.passes()
        self.write(ARENA, TREE[ARENA].replace("memory by lifetime, with limits that hold for all "
                                              "of it", "memory"))
        self.refused(f"{ARENA}:1: the opening says next to nothing")

    def test_no_opening_of_a_test(self):
        self.write(TEST, "#include <assert.h>\n\nint x; /* This comment comes much too late. */\n")
        self.refused(f"{TEST}:1: no opening")

    def test_licence(self):
        names = "src/proto/names.def"
        self.write(names, "/* names.def - a list. */\n")
        faults = [f"{path}:1: line 1 is not {LICENCE}" for path in (ARENA, TEST, names)]
        self.refused(*faults, args=["--check", "licence"])
        for path, text in TREE.items():
            self.write(path, LICENCE + "\n" + text)
        self.refused(faults[2], args=["--check", "licence"])
        self.tidy("--fix")
        with open(os.path.join(self.root, names), encoding="utf-8") as f:
            self.assertEqual(f.read(), LICENCE + "\n/* names.def - a list. */\n")
        self.passes("--check", "licence")
        self.passes()
        self.write(TEST, LICENCE + "\n#include <assert.h>\nint x;\n")  # it is no opening
        self.refused(f"{TEST}:1: no opening")

    def test_todo(self):
        self.add(ARENA, "/* TODO: do it */\n/* TODO(#12): do it */\n/* FIXME */\n/* XXX */\n")
        self.refused(f"{ARENA}:16: TODO without", f"{ARENA}:18: FIXME", f"{ARENA}:19: XXX")

    def test_uncommented_function(self):
        self.add(ARENA, function(29))
        self.passes()
        self.add(ARENA, function(30))
        self.refused(f"{ARENA}:17: grow has 30 lines and no comment")
        self.add(ARENA, "\n/* ---- growing ---- */" + function(30))
        self.refused(f"{ARENA}:18: grow has 30 lines and no comment")
        self.add(ARENA, "\n/* It grows. */\n" + function(30))
        self.refused(f"{ARENA}:19: grow has 30 lines and no comment")
        self.add(ARENA, "\n/* It grows. */" + function(30))
        self.passes()
        self.add(TEST, function(30))
        self.passes()

    def test_asserts(self):
        self.add(ARENA, "/* assert( */\n" * 51)
        self.passes("--check", "asserts")
        self.add(ARENA, "/* assert( */\n" * 52)
        self.refused("src/exec:1: 1 asserts in 67 lines, 14.9 in 1,000 (base 14.9)",
                     args=["--check", "asserts"])
        self.passes("--check", "asserts", ARENA)  # a rule of the whole, not of one file

    def test_floats(self):
        for bad in ("    const float y = 0;\n", "    long double y;\n", "    double y;\n",
                    "    return x * 0.5;\n", "    return 2e3;\n", "#include <math.h>\n"):
            self.add(ARENA, bad)
            self.refused(f"{ARENA}:16: float", args=["--check", "floats"])
        self.add(ARENA, '    f("0.5 double", 0x2e3, v1.x, 1 << 2); /* float */\n')
        self.passes("--check", "floats")
        self.write("src/exec/model/mlp.c", "double rate = 0.5;\n")
        self.write(TEST, "float rate = 0.5;\n")
        self.passes("--check", "floats")
        self.write("src/exec/model/mlp.c", "long double rate;\n")
        self.refused("mlp.c:1: float or long double", args=["--check", "floats"])

    def test_order(self):
        self.add(ARENA, "int put(struct list *l, int x);\nint size(const struct list *l);\n"
                        "int both(struct list *l) {\n    return add(put(l, 1), size(l), put(m, 2));\n"
                        "}\n")
        self.passes("--check", "order")
        for bad in ("    return add(put(l, 1),\n        put(l, 2));\n",
                    "    int x[] = {put(&l, 1), 1 + put(&l, 2)};\n",
                    "    return add(put(x->l, 1), size(l) + f(put(x->l, 2)));\n"):
            self.add(ARENA, "int put(struct list *l, int x);\n" + bad)
            self.refused(f"{ARENA}:17: two of these call what changes", args=["--check", "order"])

    def test_files_named(self):
        self.add(ARENA, "/* TODO */\n")
        self.passes(*EACH_FILE, TEST)
        self.refused(f"{ARENA}:16: TODO", args=[*EACH_FILE, os.path.join(self.root, ARENA)])

    def test_usage(self):
        self.assertEqual(self.tidy("--fish")[0], 2)
        self.assertEqual(self.tidy("--check", "fish")[0], 2)
        self.assertEqual(self.tidy("src/none.c")[0], 2)
        status, said = self.tidy("--help")
        self.assertEqual(status, 0)
        self.assertIn("--fix", said)

    def test_format(self):
        if self.tidy("--check", "format")[0] == 77:
            self.skipTest("no clang-format 14")
        self.passes()
        self.add(ARENA, "int  x;\n")
        self.refused(f"{ARENA}:16: not as clang-format 14 writes it: run scripts/tidy --fix "
                     f"{ARENA}", args=["--check", "format"])
        self.assertEqual(self.tidy("--fix")[0], 0)
        with open(os.path.join(self.root, ARENA), encoding="utf-8") as f:
            self.assertEqual(f.read(), LICENCE + "\n" + TREE[ARENA] + "int x;\n")

    def test_no_clang_format(self):
        def without(*args):
            run = subprocess.run([sys.executable, TIDY, "--root", self.root, *args],
                                 capture_output=True, text=True, env={"PATH": self.root})
            return run.returncode, run.stdout

        self.add(ARENA, "int  x;\n")
        status, said = without("--check", "format")
        self.assertEqual(status, 77)
        self.assertIn("skipped, there is no clang-format 14", said)
        for path, text in TREE.items():
            self.write(path, LICENCE + "\n" + text)
        self.assertEqual(without()[0], 0)
        self.add(ARENA, "/* TODO */\n")
        self.assertEqual(without()[0], 1)


if __name__ == "__main__":
    TIDY = os.path.abspath(TIDY)
    unittest.main(argv=sys.argv[:1])
