#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""processes.py UVCC ROOT: uvcc bench --job: three processes measure what three threads do, refuse to measure different things, and
end when one of them is gone."""
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import tempfile

UVCC, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
MODEL = "--model bert-tiny --layers 1 --seq-len 4 --threads 1"
EXACT = MODEL + " --n-iters 2 --mode exact --check"


def check(what, right):
    if not right:
        raise SystemExit(f"not so: {what}")
    print("right:", what)


class Job:
    """A directory with a job file, and what its processes left."""

    def __init__(self, directory, transport="unix", wait_s=60):
        self.d, self.file = directory, os.path.join(directory, "job.json")
        self.tcp = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)] if transport == "tcp" else []
        at = [f"tcp:127.0.0.1:{s.getsockname()[1]}" for s in self.tcp] or [f"unix:{directory}/{p}" for p in range(3)]
        self.write({"parties": [{"address": a} for a in at], "wait_s": wait_s})

    def write(self, job):
        with open(self.file, "w", encoding="utf-8") as f:
            json.dump(job, f)

    def start(self, p, words, **more):
        for s in self.tcp:
            s.close()
        return subprocess.Popen([UVCC, "bench", *words.split(), "--job", self.file, "--party", str(p), "--json",
                                 f"{self.d}/{p}.json"], stdout=subprocess.PIPE, text=True, **{"stderr": subprocess.PIPE, **more})

    def run(self, words):
        """Statuses and what was said, by party; words: of each."""
        words = [words] * 3 if isinstance(words, str) else words
        started = [self.start(p, words[p]) for p in range(3)]
        said = [p.communicate() for p in started]
        return [p.returncode for p in started], [out + err for out, err in said]

    def row(self, p):
        with open(f"{self.d}/{p}.json", encoding="utf-8") as f:
            return json.load(f)

    def running(self, victim):
        """All three, once each has measured a pass: the victim, which is one ahead at most, shows on a terminal where it is."""
        master, slave = pty.openpty()
        parts = [self.start(p, MODEL + " --n-iters 1000", **({"stderr": slave} if p == victim else {}),
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) for p in range(3)]
        os.close(slave)
        said = b""
        while not any(int(n) >= 4 for n in re.findall(rb"pass (\d+) of", said)):
            said += os.read(master, 4096)
        return parts, master


def plain():
    p = subprocess.run([UVCC, "bench", *EXACT.split(), "--json", "-"], capture_output=True, text=True, check=True)
    return json.loads(p.stdout)


def measured():
    threads = plain()
    for transport in ("unix", "tcp"):
        with tempfile.TemporaryDirectory() as d:
            job = Job(d, transport)
            statuses, said = job.run(EXACT)
            if statuses != [0, 0, 0]:
                raise SystemExit(f"{transport}: {statuses}: {said}")
            r = [job.row(p) for p in range(3)]
        check("it is what plaintext gives, at all three", all("checked      bit for bit" in s for s in said))
        check("bytes, rounds, keys and calls are those of threads", r[0]["communication"] == threads["communication"] and
              r[0]["fss"] == threads["fss"])
        check("so are the calls of families", {k: v for k, v in r[0]["nonlinear_breakdown"].items() if "calls" in k} ==
              {k: v for k, v in threads["nonlinear_breakdown"].items() if "calls" in k})
        check("all three say the same", all(r[p][k] == r[0][k] for p in (1, 2) for k in (
            "timing", "communication", "fss", "memory", "nonlinear_breakdown", "config_flags")))
        check("it says that they are processes", r[0]["config_flags"]["transport"] == transport and
              threads["config_flags"]["transport"] == "memory" and "each a process" in r[0]["notes"])
        check("time passed", r[0]["timing"]["online_time_s_mean"] > 0 and r[0]["timing"]["preproc_time_s"] > 0)


def settled():
    """On one core processes come to their first pass long after each other: keys are dealt before the input all the same."""
    core = min(os.sched_getaffinity(0))
    words = "--micro gelu --seq-len 64 --width 64 --n-iters 1"
    with tempfile.TemporaryDirectory() as d:
        job = Job(d)
        for _ in range(12):
            parts = [job.start(p, words, preexec_fn=lambda: os.sched_setaffinity(0, {core})) for p in range(3)]
            said = [p.communicate()[1] for p in parts]
            if any(p.returncode for p in parts):
                raise SystemExit(f"on one core: {said}")
        print("right: on one core all keys are dealt before the input")
        check("processes have no function's time", job.row(0)["timing"]["function_time_s_mean"] is None)


def alike():
    for other, name in ((" --seed 7", "--seed"), (" --seq-len 5", "--seq-len"), (" --n-iters 3", "--n-iters"),
                        (" --weights public", "--weights")):
        with tempfile.TemporaryDirectory() as d:
            statuses, said = Job(d).run([EXACT, EXACT, EXACT + other])
            check(f"one with{other} is refused by all: {said}", statuses == [2, 2, 2] and
                  all(f"party {2 if p < 2 else 0} has another {name}: give all three processes the same" in said[p] for p in range(3)))
            check("no row", not [name for name in os.listdir(d) if name != "job.json"])


def beside_the_file():
    """A socket's path is relative to the file, as those of uvcc party."""
    with tempfile.TemporaryDirectory() as d:
        job = Job(d)
        job.write({"parties": [{"address": f"unix:{p}"} for p in range(3)]})
        parts = [subprocess.Popen([UVCC, "bench", *EXACT.split(), "--job", file, "--party", str(p)], cwd=cwd, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
                 for p, (file, cwd) in enumerate((("job.json", d), (job.file, "/"), (f"./{os.path.basename(d)}/job.json", os.path.dirname(d))))]
        said = [p.communicate()[1] for p in parts]
        check(f"three processes in three directories meet: {said}", [p.returncode for p in parts] == [0, 0, 0])


def gone():
    """SIGKILL, SIGSTOP, SIGINT: the two others say who it was, and write what was measured until then."""
    with tempfile.TemporaryDirectory() as d:
        job = Job(d, wait_s=3)
        parts, master = job.running(2)
        parts[2].kill()
        for p in (0, 1):
            said = parts[p].communicate()[1]
            check(f"party {p} ends: {said.strip()}", parts[p].returncode == 1 and "party 2 is not connected (unix:" in said)
            r = job.row(p)
            check("its row has what was measured", r["timing"]["online_time_s_mean"] > 0 and "of 1000 passes" in r["notes"])
        parts[2].communicate()
        os.close(master)
    with tempfile.TemporaryDirectory() as d:
        job = Job(d, wait_s=5)
        parts, master = job.running(2)
        parts[2].send_signal(signal.SIGSTOP)
        for p in (0, 1):  # who sees it first ends, and the other then
            said = parts[p].communicate()[1]
            check(f"party {p} waits no longer for one that was stopped: {said.strip()}", parts[p].returncode == 1 and
                  f"party 2 (unix:{d}/2) is connected and says nothing" in said)
            check("its row has what was measured", job.row(p)["timing"]["online_time_s_mean"] > 0)
        parts[2].send_signal(signal.SIGCONT)
        parts[2].communicate()
        os.close(master)
    with tempfile.TemporaryDirectory() as d:
        parts, master = Job(d).running(1)
        parts[1].send_signal(signal.SIGINT)
        check("one that is interrupted says so", parts[1].wait() == 130)
        for p in (0, 2):
            said = parts[p].communicate()[1]
            check(f"party {p} does not wait for it: {said.strip()}", parts[p].returncode == 1 and "a peer aborted" in said and
                  said.count("\n") == 1)
        check("nobody's socket stays", sorted(os.listdir(d)) == ["0.json", "1.json", "2.json", "job.json"])
        parts[1].communicate()
        os.close(master)
    with tempfile.TemporaryDirectory() as d:
        alone = Job(d, wait_s=1).start(2, EXACT)
        said = alone.communicate()[1]
        check("nobody there", alone.returncode == 1 and "party 0 is not connected (unix:" in said and
              "for 1 s now: start all three processes" in said)


def refused(job, words, text):
    p = subprocess.run([UVCC, "bench", *MODEL.split(), *words.split()], capture_output=True, text=True, check=False)
    check(f"'{words.replace(job.d, '')}' is refused: {text} ({p.stderr.strip()})", p.returncode == 2 and text in p.stderr)


def refusals():
    with tempfile.TemporaryDirectory() as d:
        job = Job(d)
        three = [{"address": f"unix:{d}/{p}"} for p in range(3)]
        refused(job, f"--job {job.file}", "give --party N with --job")
        refused(job, "--party 1", "without --job")
        refused(job, f"--job {d}/none --party 0", "none")
        refused(job, f"--job {job.file} --party 0 --json {d}/../{os.path.basename(d)}/job.json", "is the file of --job, which it would")
        for text, bad in (("parties: give a list of three", {"parties": three[:2]}), ("colour", {"parties": three, "colour": 1}),
                          ("parties[1].address: give tcp:HOST:PORT or unix:PATH",
                           {"parties": [*three[:1], {"address": "udp:a:1"}, *three[:1]]}),
                          ("parties[2].address", {"parties": [*three[:2], {"listen": "unix:a"}]}),
                          ("parties[2].address: is that of party 1 too", {"parties": [*three[:2], three[1]]}),
                          *((f"parties[0].{name}: give tcp:HOST:PORT or unix:PATH", {"parties": [{**three[0], name: a}, *three[1:]]})
                            for name in ("address", "listen") for a in ("tcp:127.0.0.1", "tcp:[::1]", "tcp::7", "tcp:a:", "unix:")),
                          ("json: wait_s: give a whole number", {"parties": three, "wait_s": 0})):
            job.write(bad)
            refused(job, f"--job {job.file} --party 0", text)
        with open(job.file, "w", encoding="utf-8-sig") as f:  # with a mark before it
            json.dump({"parties": three, "sound": 1}, f)
        refused(job, f"--job {job.file} --party 0", "sound")
        job.write({"parties": [{"address": "unix:/nowhere/0"}, *three[1:]]})
        p = job.start(0, EXACT)
        said = p.communicate()[1]
        check(f"a place that cannot be listened at: {said.strip()}", p.returncode != 0 and "/nowhere/0" in said)


def main():
    measured()
    settled()
    alike()
    beside_the_file()
    gone()
    refusals()


if __name__ == "__main__":
    main()
