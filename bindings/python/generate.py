#!/usr/bin/env python3
"""generate.py OUT_CDEF OUT_API VERSION INCLUDE_DIR - the part of the package that the headers say.

Reads include/uvcc/*.h and *.def and writes two modules: `_cdef.py`, the declarations as cffi wants
them (ABI mode, so no compiler), and `_api.py`: enums, constants, and dataclasses of structures that
are values, with the headers' comments as their documentation. Nothing of it is written by hand
anywhere else, so that a new member, error or opcode is in Python as soon as it is in C."""
import contextlib
import os
import re
import sys
from dataclasses import dataclass

# Of libraries of their own, for C hosts: they need MPI, CUDA.
OTHERS = {"mpi.h", "gpu.h", "nccl.h"}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
# Structures that Python gives to the library: C name -> class. Zero and empty mean the default.
GIVEN = {
    "uvcc_config_identity": "Identity", "uvcc_config_place": "Place", "uvcc_config_links": "Links",
    "uvcc_config_limits": "Limits", "uvcc_config_resume": "Resume", "uvcc_config_checks": "Checks",
    "uvcc_config_triples": "Triples", "uvcc_mlp_config": "MlpConfig",
    "uvcc_link_config": "LinkConfig",
    "uvcc_transformer_worker": "TransformerWorker",
}
# The same, but None leaves what the library's own default call says.
GIVEN_DEFAULTED = {"uvcc_transformer_config": "TransformerConfig",
                   "uvcc_model_config": "ModelConfig"}
# Structures that the library gives.
TAKEN = {
    "uvcc_session_stats": "SessionStats", "uvcc_peer_info": "PeerInfo", "uvcc_event": "Event",
    "uvcc_memory_bound": "MemoryBound", "uvcc_checkpoint_info": "CheckpointInfo",
    "uvcc_op_cost": "OpCost", "uvcc_io_desc": "IoDesc", "uvcc_audit_fault": "AuditFault",
    "uvcc_policy_rule": "PolicyRule", "uvcc_transformer_weight": "TransformerWeight",
    "uvcc_transformer_part": "TransformerPart", "uvcc_triple_info": "TripleInfo",
    "uvcc_model_weight": "ModelWeight", "uvcc_model_costs": "ModelCosts",
    "uvcc_nonlinear_info": "NonlinearInfo", "uvcc_link_stats": "LinkStats",
}
# Enums without a name: by their first member.
UNNAMED = {
    "UVCC_SUITE_CHACHA20_POLY1305": ("Suite", "IntFlag"), "UVCC_KEM_NONE": ("Kem", "IntEnum"),
    "UVCC_OP_TRANS_A": ("OpFlag", "IntFlag"), "UVCC_MLP_IN_X": ("MlpInput", "IntEnum"),
    "UVCC_MLP_OUT_PREDICTION": ("MlpOutput", "IntEnum"),
    "UVCC_TRANSFORMER_IN_TOKENS": ("TransformerId", "IntEnum"),
    "UVCC_MODEL_IN_X": ("ModelId", "IntEnum"),
}
SIGNED = {"int8_t", "int16_t", "int32_t", "int64_t", "int", "ptrdiff_t"}
UNSIGNED = {"uint8_t", "uint16_t", "uint32_t", "uint64_t", "size_t", "unsigned"}


def fail(text):
    sys.exit("generate.py: " + text)


def say(comment):
    """The words of a comment."""
    text = re.sub(r"^/\*\*?<?|\*/$|^//", "", comment)
    text = re.sub(r"\n\s*\*", "\n", text)
    return " ".join(text.split())


@dataclass
class Member:
    name: str
    ctype: str
    dims: list
    doc: str


def pieces(body, end):
    """(code, comments) of a body, cut behind every `end`; a /**< comment is of the piece before."""
    found, code, comments, depth = [], "", [], 0
    at = 0
    while at < len(body):
        m = COMMENT.match(body, at)
        if m:
            if m.group().startswith("/**<") and found and not code.strip():
                found[-1][1].append(say(m.group()))
            else:
                comments.append(say(m.group()))
            at = m.end()
            continue
        c = body[at]
        depth += (c in "({") - (c in ")}")
        if c == end and depth == 0:
            found.append((code.strip(), comments))
            code, comments = "", []
        else:
            code += c
        at += 1
    if code.strip():
        found.append((code.strip(), comments))
    return found


class Headers:
    def __init__(self, include):
        self.include = include
        self.numbers = {}           # macros and enum members
        self.enums = []             # (C name or None, [(member, value, doc)], doc)
        self.structs = {}           # C name -> ([Member], doc)
        self.cdef = []
        self.functions = []
        self.seen = set()
        for name in ["types.h"] + sorted(os.listdir(os.path.join(include, "uvcc"))):
            if name.endswith(".h") and name not in OTHERS:
                self.header(name)

    def read(self, name):
        with open(os.path.join(self.include, "uvcc", name), encoding="utf-8") as f:
            return f.read()

    def value(self, text):
        text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text.strip())
        text = re.sub(r"\bUINT(\d+)_MAX\b", lambda m: str(2 ** int(m.group(1)) - 1), text)
        if not re.fullmatch(r"[\w\s()+*/<>|&~-]+", text):
            raise ValueError(text)
        return int(eval(text.replace("/", "//"), {"__builtins__": {}}, dict(self.numbers)))

    def expand(self, body):
        """An enum's body with its #define, #include <x.def>, #undef put in."""
        def put(m):
            params = [p.strip() for p in m.group(2).split(",")]
            rows = re.sub(r"/\*.*?\*/", "", self.read(m.group(4)), flags=re.S)
            rows = rows.replace("\\\n", " ")
            out = []
            for row in re.finditer(re.escape(m.group(1)) + r"\(((?:\"(?:\\.|[^\"])*\"|[^\"()])*)\)",
                                   rows):
                args = re.findall(r"\s*(\"(?:\\.|[^\"])*\"|[^,]+)", row.group(1))
                line = re.sub(r"\\\n", " ", m.group(3))
                for p, a in zip(params, args):
                    line = re.sub(r"##\s*%s\b" % p, a.strip(), line)
                    line = re.sub(r"\b%s\b" % p, lambda _, a=a: a.strip(), line)
                texts = [a.strip().strip('"') for a in args if a.strip().startswith('"')]
                # Into a comment of the member before: what the row says of itself.
                out.append(line.strip() + (" /**< %s */" % texts[-1] if texts else ""))
            if not out:
                fail("no rows in %s" % m.group(4))
            return "\n".join(out) + "\n"
        return re.sub(r"#define\s+(\w+)\(((?:[^()\\]|\\\n)*)\)((?:\\\n|[^\n])*)\n"
                      r"#include <uvcc/(\w+\.def)>\n#undef \w+\n", put, body)

    def enum(self, name, body, doc):
        members, last = [], -1
        for code, comments in pieces(self.expand(body), ","):
            if not code:
                continue
            member, _, value = code.partition("=")
            member = member.strip()
            last = self.value(value) if value.strip() else last + 1
            self.numbers[member] = last
            members.append((member, last, " ".join(comments)))
        self.enums.append((name, members, doc))
        inner = ", ".join("%s = %d" % (m, v) for m, v, _ in members)
        if name is None:
            self.cdef.append("enum { %s };" % inner)
        else:
            self.cdef.append("typedef enum %s { %s } %s;" % (name, inner, name))

    def flat(self, code):
        """Declarations as cffi takes them: no comments, macros in brackets as numbers."""
        code = " ".join(COMMENT.sub(" ", code).split())
        return re.sub(r"\[([^\]]+)\]", lambda m: "[%d]" % self.value(m.group(1)), code)

    def struct(self, name, body, doc):
        members = []
        for code, comments in pieces(body, ";"):
            code = self.flat(code)
            if not code or "(" in code or "{" in code:
                continue
            m = re.match(r"((?:const\s+|struct\s+)*\w+)\s+(.*)$", code)
            if not m:
                fail("struct %s: %s" % (name, code))
            for one in m.group(2).split(","):
                d = re.match(r"\s*(\**\s*(?:const)?\s*)(\w+)((?:\[\d+\])*)$", one)
                if not d:
                    fail("struct %s: %s" % (name, one))
                members.append(Member(d.group(2), m.group(1) + d.group(1).strip(),
                                      [int(n) for n in re.findall(r"\d+", d.group(3))],
                                      " ".join(comments)))
        self.structs[name] = (members, doc)
        self.cdef.append("typedef struct %s { %s } %s;" % (name, self.flat(body), name))

    def header(self, name):
        if name in self.seen:
            return
        self.seen.add(name)
        text = self.read(name)
        for m in re.finditer(r"^#include <uvcc/(\w+\.h)>", text, re.M):
            self.header(m.group(1))
        doc, at = "", 0
        item = re.compile(
            r"(?P<comment>/\*.*?\*/)|#define\s+(?P<macro>UVCC_\w+)[ \t]+(?P<number>\S[^\n]*)\n"
            r"|typedef\s+struct\s+(?P<opaque>\w+)\s+\w+\s*;"
            r"|(?:typedef\s+)?(?P<kind>enum|struct)\s*(?P<name>\w*)\s*\{"
            r"|(?<!#define )UVCC_API\s+(?P<call>[^;]*);",
            re.S)
        while True:
            m = item.search(text, at)
            if not m:
                return
            at = m.end()
            if m.group("comment"):
                doc = say(m.group("comment")) if m.group("comment").startswith("/**") else ""
                continue
            if m.group("macro"):
                try:
                    number = self.value(COMMENT.sub("", m.group("number")))
                    self.numbers[m.group("macro")] = number
                except (ValueError, NameError, SyntaxError):
                    pass
            elif m.group("opaque"):
                self.cdef.append("typedef struct %s %s;" % (m.group("opaque"), m.group("opaque")))
            elif m.group("kind"):
                depth, end = 1, at
                while depth:
                    c = COMMENT.match(text, end)
                    if c:
                        end = c.end()
                        continue
                    depth += (text[end] == "{") - (text[end] == "}")
                    end += 1
                body = text[at:end - 1]
                at = text.index(";", end) + 1
                if m.group("kind") == "enum":
                    self.enum(m.group("name") or None, body, doc)
                else:
                    self.struct(m.group("name"), body, doc)
            elif m.group("call"):
                call = self.flat(m.group("call").replace("UVCC_MUST_USE", ""))
                self.functions.append(re.match(r".*?\b(\w+)\(", call).group(1))
                self.cdef.append(call + ";")
            doc = ""


# ---- Python out of it ----


def class_name(c_name):
    if c_name == "uvcc_error":
        return "ErrorCode"
    return "".join(w.capitalize() for w in c_name.removeprefix("uvcc_").split("_"))


def common_prefix(names):
    prefix = os.path.commonprefix(names) if len(names) > 1 else names[0]
    return prefix[:prefix.rfind("_") + 1]


def quoted(text, indent):
    """A docstring, wrapped."""
    import textwrap
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    lines = textwrap.wrap(text, 96 - indent) or [""]
    if lines[-1].endswith('"'):
        lines[-1] += " "
    pad = " " * indent
    return pad + '"""' + ("\n" + pad).join(lines) + '"""\n'


def enum_text(headers):
    out, classes = [], {}
    for name, members, doc in headers.enums:
        base = "IntEnum"
        if name is None:
            if members[0][0] not in UNNAMED:
                for m, v, d in members:
                    out.append("%s: Final = %d\n" % (m.removeprefix("UVCC_"), v))
                    out.append(quoted(d, 0) if d else "")
                continue
            cls, base = UNNAMED[members[0][0]]
        else:
            cls = class_name(name)
            classes[name] = cls
        drop = common_prefix([m for m, _, _ in members])
        out.append("\n\nclass %s(%s):\n" % (cls, base))
        out.append(quoted(doc or (name or cls) + " of the C headers.", 4))
        out.append("\n")
        for m, v, d in members:
            if re.search(r"_(KIND_)?END$|^UVCC_NL_COUNT$", m):
                continue
            short = m.removeprefix(drop).removeprefix("ERR_" if cls == "ErrorCode" else "")
            out.append("    %s = %d\n" % (short, v))
            if d:
                out.append(quoted(d, 4))
    return "".join(out), classes


def python_type(member, classes, given):
    base = member.ctype.replace("const ", "").strip()
    if base in ("char", "uint8_t") and member.dims:
        if base == "char":
            return "str", '""'
        if len(member.dims) == 1:
            return "bytes", 'b""'
        return ("Sequence[bytes]" if given else "tuple[bytes, ...]"), "()"
    if base == "char*":
        return "str", '""'
    if "*" in base:
        return None
    if base in classes:
        kind, default = classes[base], "%s(0)" % classes[base]
        if not given:
            return kind, "0"
        return kind, default
    named = re.match(r"(?:\w+: )?(uvcc_\w+)", member.doc)
    if named and named.group(1) in classes and not given and not member.dims:
        return classes[named.group(1)], "0"
    kind, default = {"bool": ("bool", "False"), "double": ("float", "0.0")}.get(base, ("", ""))
    if not kind:
        if base not in SIGNED | UNSIGNED:
            return None
        kind, default = "int", "0"
    if member.dims:
        return ("Sequence[%s]" if given else "tuple[%s, ...]") % kind, "()"
    return kind, default


def dataclass_text(headers, classes):
    out = []
    for c_name, cls, given, defaulted in (
            [(c, n, True, False) for c, n in GIVEN.items()] +
            [(c, n, True, True) for c, n in GIVEN_DEFAULTED.items()] +
            [(c, n, False, False) for c, n in TAKEN.items()]):
        members, doc = headers.structs[c_name]
        out.append("\n\n@dataclass%s\n" % ("" if given else "(frozen=True)"))
        out.append("class %s:\n" % cls)
        out.append(quoted(doc or c_name + " of the C headers.", 4))
        out.append("\n    C_NAME: ClassVar[str] = \"%s\"\n" % c_name)
        for m in members:
            if m.name == "size" or m.name.startswith("reserved"):
                continue
            typed = python_type(m, classes, given)
            if typed is None:
                continue
            if defaulted:
                out.append("    %s: %s | None = None\n" % (m.name, typed[0]))
            elif given:
                out.append("    %s: %s = %s\n" % (m.name, typed[0], typed[1]))
            else:
                out.append("    %s: %s\n" % (m.name, typed[0]))
            if m.doc:
                out.append(quoted(m.doc, 4))
    return "".join(out)


def constants_text(headers):
    enum_members = {m for _, members, _ in headers.enums for m, _, _ in members}
    return "".join("%s: Final = %d\n" % (n.removeprefix("UVCC_"), v)
                   for n, v in headers.numbers.items() if n not in enum_members)


def main():
    if len(sys.argv) != 5:
        fail(__doc__.split("\n")[0])
    out_cdef, out_api, version, include = sys.argv[1:]
    headers = Headers(include)
    import cffi
    ffi = cffi.FFI()
    ffi.cdef("\n".join(headers.cdef))
    ffi.set_source("uvcc._cdef", None)
    # cffi says what it does, and leaves a file as old as it is if nothing changed.
    if os.path.exists(out_cdef):
        os.unlink(out_cdef)
    with contextlib.redirect_stdout(sys.stderr):
        ffi.emit_python_code(out_cdef)
    enums, classes = enum_text(headers)
    with open(out_api, "w", encoding="utf-8") as f:
        f.write('"""What the headers of uvcc %s say; made by generate.py."""\n' % version)
        f.write("from __future__ import annotations\n\nfrom collections.abc import Sequence\n"
                "from dataclasses import dataclass\nfrom enum import IntEnum, IntFlag\n"
                "from typing import ClassVar, Final\n\n")
        f.write('VERSION: Final = "%s"\n' % version)
        f.write("FUNCTIONS: Final = (\n%s)\n" %
                "".join('    "%s",\n' % n for n in headers.functions))
        f.write(constants_text(headers))
        f.write(enums)
        f.write(dataclass_text(headers, classes))


if __name__ == "__main__":
    main()
