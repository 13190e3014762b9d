#!/usr/bin/env python3
"""layers.py ROOT [ARCHIVE...]: who may know whom (docs/architecture.md, src/exec and src/proto).

Looks at the #include lines under ROOT, and with nm at the symbols that the object files in ARCHIVE
(libuvcc_exec.a, libuvcc_proto.a) need of each other: a declaration copied by hand escapes the
first, not the second. Refused are

  - an include or a symbol of a room that a room may not know (ROOMS below);
  - a circle between modules, by includes or by symbols. A module is NAME.c and NAME.h; a header
    alone is none, whoever includes it needs what it includes;
  - in installed headers, src/proto, hosts and adapters: an include that is not on their list.

One inversion is permitted: the classes of ops are declared in program/op_class.h and defined in
ops/, so program/ may need one symbol that this header declares. Exit status 77: no nm, and nothing
wrong with the includes."""
import collections
import os
import re
import shutil
import subprocess
import sys

# What each room of src/exec may know besides itself and src/proto. program and compute stand side
# by side, so do workers and host; ops and sessions hand out jobs and never compute.
ROOMS = {
    "base": [],
    "primitives": ["base"],
    "program": ["base", "primitives"],
    "compute": ["base", "primitives"],
    "model": ["base", "primitives", "program"],
    "runtime": ["base", "primitives", "program", "compute"],
    "ops": ["base", "primitives", "program", "runtime"],
    "session": ["base", "primitives", "program", "runtime", "ops"],
    "workers": ["base", "primitives", "program", "compute", "model", "runtime", "ops", "session"],
    "host": ["base", "primitives", "program", "compute", "model", "runtime", "ops", "session"],
}
# The inversion: who may need one symbol of whom, and the header that must declare it.
USER, DEFINER, HEADER = "program", "ops", "src/exec/program/op_class.h"

INSTALLED_MAY = [r'<uvcc/[a-z0-9_]+\.(h|def)>', r'<std(bool|def|int)\.h>']
PROTO_MAY = [r'"proto/[a-z0-9_]+\.(h|def)"',
             r'<uvcc/(types|frame|demux|dialog|blv1|link|pipeline|audit)\.h>',
             r'<uvcc/(errors|kinds|tlvs|aborts|tags|leaves|faults)\.def>',
             r'<(assert|limits|stdalign|stdatomic|stdbool|stddef|stdint|string)\.h>',
             r'<(sodium|intel-ipsec-mb|cpuid|[a-z0-9]*intrin|isa-l|crc)\.h>', r'<(openssl|isa-l)/[a-z0-9_]+\.h>']
EXEC_MAY = [r'"proto/[a-z0-9_]+\.(h|def)"', r'"exec/[a-z]+/[a-z0-9_]+\.(h|def)"', r'<[^>]*>']

# A dependency: module `user` needs module `used`, since `why`.
Need = collections.namedtuple("Need", "user used why")


def includes(root, top):
    """(file, line number, included with its quotes) for every include of the C files under top."""
    for folder, folders, names in os.walk(os.path.join(root, top)):
        folders.sort()
        for name in sorted(names):
            if not name.endswith((".c", ".h")):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as f:
                for n, line in enumerate(f, 1):
                    m = re.match(r'\s*#\s*include\s*(<[^>]*>|"[^"]*")', line)
                    if m:
                        yield os.path.relpath(path, root), n, m.group(1)


def outside_lists(root):
    """Includes that the lists above do not have."""
    for top, may, rule in (
            ("include", INSTALLED_MAY, "an installed header includes installed headers only"),
            ("src/proto", PROTO_MAY, 'src/proto includes "proto/x.h", hooks and pure libraries'),
            ("src/exec", EXEC_MAY, 'src/exec includes "exec/ROOM/x.h" and "proto/x.h"')):
        for path, n, what in includes(root, top):
            if not any(re.fullmatch(p, what) for p in may):
                yield f"{path}:{n}: includes {what}: {rule}"
    for top in ("io_adapters", "tools", "examples"):
        for path, n, what in includes(root, top):
            bad = re.match(r'<(proto|exec)/', what)
            if what.startswith('"'):
                beside = os.path.normpath(os.path.join(os.path.dirname(path), what[1:-1]))
                bad = not any(at.startswith(top + "/") and os.path.exists(os.path.join(root, at))
                              for at in (beside, os.path.normpath(what[1:-1])))
            if bad:
                yield (f"{path}:{n}: includes {what}: hosts and adapters use installed headers and "
                       f"files of {top}")


def module_of(path):
    """proto/frame, exec/base/arena: of a path under src."""
    return re.sub(r'\.(c|h|def)$', '', path)


def room_of(module):
    return module.split("/")[1] if module.startswith("exec/") else "proto"


def include_needs(root):
    for top in ("src/proto", "src/exec"):
        for path, n, what in includes(root, top):
            if re.match(r'"(proto|exec)/', what):
                yield Need(module_of(path[len("src/"):]), module_of(what[1:-1]),
                           f"{path}:{n} includes {what}")


def symbol_needs(archives):
    """What object files need of each other. Members are named x.c.o in src/proto, ROOM_x.c.o in
    src/exec; what the archives do not define is the business of the symbols tests."""
    defined, wanted = {}, []
    for archive in archives:
        said = subprocess.run(["nm", "-g", "-A", archive], capture_output=True, text=True)
        found = False
        for line in said.stdout.splitlines():
            m = re.search(r'[/:]([A-Za-z0-9_]+)\.c\.o:\s*[0-9a-f]*\s+(\w) (\S+)$', line)
            if not m:
                continue
            found = True
            member, kind, symbol = m.groups()
            room = member.split("_")[0]
            module = f"exec/{room}/{member[len(room) + 1:]}" if "exec" in \
                os.path.basename(archive) else f"proto/{member}"
            if kind in "Uw":
                wanted.append((module, symbol))
            else:
                defined[symbol] = module
        if not found:
            sys.exit(f"{archive}: nm finds nothing in it")
    for module, symbol in wanted:
        if symbol in defined and defined[symbol] != module:
            yield Need(module, defined[symbol], f"{module} needs {symbol} of {defined[symbol]}")


def inversion(root, needs):
    """The needs that the inversion permits: all for one symbol that HEADER declares."""
    header = os.path.join(root, HEADER)
    if not os.path.exists(header):
        return set()
    with open(header, encoding="utf-8") as f:
        text = re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S)
    declared = set(re.findall(r'\b(uvcci_\w+)(?=\s*\([^;{}]*\)\s*;|\s*;|\s*\[[^;{}]*;)', text))
    used = {}
    for need in needs:
        if room_of(need.user) == USER and room_of(need.used) == DEFINER:
            symbol = re.search(r' needs (\S+) of ', need.why)
            if symbol and symbol.group(1) in declared:
                used.setdefault(symbol.group(1), []).append(need)
    return set(used.popitem()[1]) if len(used) == 1 else set()


def wrong_rooms(needs, permitted):
    for need in needs:
        user, used = room_of(need.user), room_of(need.used)
        if user == used or used == "proto" or need in permitted:
            continue
        if user == "proto":
            yield f"{need.why}: src/proto never uses src/exec"
            continue
        if user not in ROOMS or used not in ROOMS:
            new = user if user not in ROOMS else used
            yield f"{need.why}: {new} is no room: name it in ROOMS of {os.path.basename(__file__)}"
            continue
        if used in ROOMS[user]:
            continue
        what = f"{user} may know {', '.join(ROOMS[user]) or 'no other room'}"
        if (user, used) == (USER, DEFINER):
            what += f", and of {DEFINER} one symbol that {HEADER} declares"
        if (user, used) == ("session", "compute"):
            what = "a session never computes: it hands out jobs"
        yield f"{need.why}: {what}; move what both need below, or turn the call round"


def circles(needs):
    """The strongly connected parts with more than one module (Tarjan, without recursion)."""
    graph = {}
    for need in needs:
        graph.setdefault(need.user, set()).add(need.used)
        graph.setdefault(need.used, set())
    index, low, stack, on, found = {}, {}, [], set(), []
    for root in sorted(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on.add(other)
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in on:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = set()
                    while node not in part:
                        part.add(stack.pop())
                    on -= part
                    if len(part) > 1:
                        found.append(part)
    return found


def through_headers(root, needs):
    """The same needs without headers that are no module's: a -> x.h -> b is a -> b."""
    alone = {m for need in needs for m in (need.user, need.used)
             if not os.path.exists(os.path.join(root, "src", m + ".c"))}
    behind = {}
    for need in needs:
        behind.setdefault(need.user, []).append(need)
    for need in needs:
        if need.user in alone:
            continue
        seen, waiting = set(), [need]
        while waiting:
            at = waiting.pop()
            if at.used not in alone:
                if at.used != need.user:
                    yield Need(need.user, at.used, at.why if at is need else
                               f"{need.why}, that brings in {at.used}.h")
            elif at.used not in seen:
                seen.add(at.used)
                waiting += behind.get(at.used, [])


def wrong_circles(needs, by):
    for part in circles(needs):
        lines = [f"a circle of modules by {by}: {', '.join(sorted(part))}: put what they share "
                 "below them, or make one module of them"]
        edges = {}
        for need in needs:
            if need.user in part and need.used in part and need.user != need.used:
                edges.setdefault((need.user, need.used), []).append(need.why)
        for _, whys in sorted(edges.items()):
            more = f" (and {len(whys) - 1} more)" if len(whys) > 1 else ""
            lines.append(f"    {whys[0]}{more}")
        yield "\n".join(lines)


def main(args):
    if not args or args[0].startswith("-"):
        print(__doc__)
        return 2
    root, archives = args[0], args[1:]
    wrong = list(outside_lists(root))
    included = list(include_needs(root))
    nm = shutil.which("nm") is not None
    linked = list(dict.fromkeys(symbol_needs(archives))) if nm else []
    permitted = inversion(root, linked)
    needs = included + linked
    wrong += wrong_rooms(needs, permitted)
    wrong += wrong_circles(list(through_headers(root, included)), "includes")
    wrong += wrong_circles([need for need in linked if need not in permitted], "symbols")
    if wrong:
        print(f"{len(wrong)} arrows that may not be (docs/architecture.md):")
        for line in wrong:
            print("    " + line.replace("\n", "\n    "))
        return 1
    modules = {m for need in needs for m in (need.user, need.used)}
    print(f"{len(modules)} modules, {len(needs)} arrows, all of them down, no circle")
    if archives and not nm:
        print("no nm: symbols were not looked at")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
