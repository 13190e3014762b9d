"""test_layout.py INCLUDE CC...: the declarations that Python loads the library by are those that a C
compiler reads: size and members of each structure, each enum's values, each function's type. In
cffi's ABI mode nothing else would notice."""
import os
import subprocess
import sys
import tempfile
import unittest

import uvcc._api
import uvcc._load
from uvcc._load import ffi, lib

INCLUDE, CC = sys.argv[1], sys.argv[2:]


def compile_and_run(text, run=True):
    with tempfile.TemporaryDirectory() as where:
        source, program = os.path.join(where, "x.c"), os.path.join(where, "x")
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        command = CC + ["-std=c17", "-I", INCLUDE, "-Werror", source]
        command += ["-o", program] if run else ["-fsyntax-only"]
        subprocess.run(command, check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout if run else ""


def includes():
    return "".join("#include <uvcc/%s>\n" % h for h in sorted(os.listdir(os.path.join(INCLUDE, "uvcc")))
                   if h.endswith(".h"))


class Layout(unittest.TestCase):
    def test_structures(self):
        want, lines = [], []
        for name in ffi.list_types()[0]:
            t = ffi.typeof(name)
            if t.kind != "struct" or t.fields is None:
                continue
            lines.append('P("%s %%zu", sizeof(%s));' % (name, name))
            want.append("%s %d" % (name, ffi.sizeof(name)))
            for field, how in t.fields:
                if not field:
                    continue
                lines.append('P("%s.%s %%zu %%zu", offsetof(%s, %s), sizeof(((%s *)0)->%s));' %
                             (name, field, name, field, name, field))
                want.append("%s.%s %d %d" % (name, field, how.offset, ffi.sizeof(how.type)))
        self.assertGreater(len(want), 500)
        have = compile_and_run("#include <stdio.h>\n%s#define P(...) (printf(__VA_ARGS__), putchar(10))\n"
                               "int main(void) {\n%s\nreturn 0; }\n" % (includes(), "\n".join(lines)))
        self.assertEqual(have.split("\n")[:-1], want)

    def test_enums(self):
        checks = []
        for name in ffi.list_types()[0]:
            t = ffi.typeof(name)
            if t.kind == "enum":
                checks += ["_Static_assert(%s == %d, \"\");" % (m, v) for m, v in t.relements.items()]
        self.assertGreater(len(checks), 300)
        for error in uvcc._api.ErrorCode:
            if error:
                checks.append("_Static_assert(UVCC_ERR_%s == %d, \"\");" % (error.name, error))
        for kind in uvcc._api.EventKind:
            checks.append("_Static_assert(UVCC_EVENT_%s == %d, \"\");" % (kind.name, kind))
        for name, value in vars(uvcc._api).items():
            if isinstance(value, int) and type(value) is int and name.isupper():
                checks.append("_Static_assert(UVCC_%s == %dull, \"\");" % (name, value))
        compile_and_run(includes() + "\n".join(checks), run=False)

    def test_functions(self):
        """cffi does not know const, so C is made to forget it too."""
        text = ["#include <stdio.h>\n#include <stdbool.h>\n#define const\n", includes()]
        io = uvcc._load.open_io()
        self.assertIsNotNone(io)
        for i, name in enumerate(uvcc._api.FUNCTIONS):
            try:  # one of the two libraries has it
                kind = ffi.typeof(getattr(lib, name))
            except ffi.error:
                kind = ffi.typeof(getattr(io, name))
            text.append("extern %s;\n%s = %s;\n" % (ffi.getctype(kind, "p%d" % i),
                                                   ffi.getctype(kind, "p%d" % i), name))
        self.assertGreater(len(uvcc._api.FUNCTIONS), 200)
        compile_and_run("".join(text), run=False)

    def test_every_declaration_is_there(self):
        """What a much simpler reader finds in the headers, but those of libraries of their own (MPI, CUDA)."""
        count = 0
        for name in set(os.listdir(os.path.join(INCLUDE, "uvcc"))) - {"mpi.h", "gpu.h", "nccl.h"}:
            with open(os.path.join(INCLUDE, "uvcc", name), encoding="utf-8") as f:
                count += sum(line.startswith("UVCC_API") for line in f)
        self.assertEqual(count, len(uvcc._api.FUNCTIONS))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
