#!/usr/bin/env python3
"""test_mutate.py MUTATE - which changes scripts/mutate makes to a small file, and which it does not."""
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = """/* x.c - if (a < 1) is no code */
#include <assert.h>
#define LIMIT 5
static const int table[7] = {0};

int f(int a, int b) {
    int sum = 0;
    uint8_t bytes[16];
    assert(a < 3 && b != 4);
    if (a <= b && !UVCCI_MUTANT(9))
        sum += g(a, b);
    uvcci_wipe(bytes, sizeof bytes);
    uvcci_log(s, "a < %d", b + 1);
    for (int i = 0; i < b; i++)
        h(
            a);
    return sum == 010;
}
"""


def load(path):
    loader = importlib.machinery.SourceFileLoader("mutate", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    loader.exec_module(module)
    return module


class Sites(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.dir.name, "x.c")
        with open(cls.path, "w", encoding="utf-8") as f:
            f.write(SOURCE)
        cls.source = mutate.Source(cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def mutants(self, kind):
        return sorted("%s -> %s" % (SOURCE[s.start:s.end].strip(), s.new.strip())
                      for s in self.source.sites if s.kind == kind)

    def test_relations(self):
        self.assertEqual(self.mutants("relation"), ["< -> <=", "< -> >=", "<= -> <", "<= -> >", "== -> !="])

    def test_constants(self):
        # not those of directives, asserts, logs, sizes, planted bugs, empty initialisers
        self.assertEqual(self.mutants("constant"), ["0 -> 1", "0 -> 1", "010 -> 7", "010 -> 9"])

    def test_signs(self):
        self.assertEqual(self.mutants("sign"), ["++ -> --", "+= -> -="])

    def test_logic(self):
        self.assertEqual(self.mutants("logic"), ["! -> ", "&& -> ||"])

    def test_statements(self):
        self.assertEqual(self.mutants("delete"), ["h(\n            a); -> ;", "sum += g(a, b); -> ;"])

    def test_results(self):
        self.assertEqual(self.mutants("return"), ["return sum == 010; -> return 0;", "return sum == 010; -> return 1;"])

    def test_conditions(self):
        # not one with a planted bug in it
        self.assertEqual(self.mutants("negate"), [])

    def test_arguments(self):
        self.assertEqual(self.mutants("swap"), ["a, b -> b, a"])

    def test_lines_stay(self):
        for s in self.source.sites:
            new = SOURCE[:s.start] + s.new + SOURCE[s.end:]
            self.assertEqual(new.count("\n"), SOURCE.count("\n"))
            self.assertNotEqual(new, SOURCE)

    def test_sample(self):
        def order(seed):
            return [(s.start, s.new) for s in mutate.sample([self.source], seed)]
        self.assertEqual(order(1), order(1))
        self.assertNotEqual(order(1), order(2))
        self.assertEqual(sorted(order(1)), sorted(order(2)))
        self.assertEqual(len(order(1)), len(self.source.sites))

    def test_diff(self):
        site = [s for s in self.source.sites if s.kind == "delete" and "h(" in SOURCE[s.start:s.end]][0]
        self.assertEqual(mutate.diff_of(self.source, site), ["-        h(", "-            a);", "+        ;"])


class Limits(unittest.TestCase):
    def run_shell(self, text, cpu_s=5, wall_s=20):
        with tempfile.TemporaryDirectory() as tmp:
            return mutate.run(["/bin/sh", "-c", text], tmp, dict(os.environ), cpu_s, wall_s, tmp)[0]

    def test_results(self):
        self.assertIsNone(self.run_shell("exit 0"))
        self.assertEqual(self.run_shell("exit 3"), "exit 3")
        self.assertEqual(self.run_shell("kill -ABRT $$"), "SIGABRT")
        self.assertEqual(self.run_shell("while :; do :; done", cpu_s=1), "takes too long")
        self.assertEqual(self.run_shell("exec sleep 600", wall_s=0.2), "does not end")


class Use(unittest.TestCase):
    def status(self, *args):
        return subprocess.run([sys.executable, path, *args], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False).returncode

    def test_wrong_use(self):
        self.assertEqual(self.status("--help"), 0)
        self.assertEqual(self.status("--seed"), 2)
        self.assertEqual(self.status("--seed", "x"), 2)
        self.assertEqual(self.status("--no-such"), 2)
        self.assertEqual(self.status("--build", "/nowhere"), 2)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    path = sys.argv.pop(1)
    mutate = load(path)
    unittest.main()
