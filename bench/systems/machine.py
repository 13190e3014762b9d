# SPDX-License-Identifier: Apache-2.0
"""What this machine has left, and processes that are watched while they run."""
import os
import shutil
import signal
import subprocess
import threading
import time

from .rows import Failed, TimedOut

GRACE_S = 20  # from an interruption to the end


def nvidia_smi(query):
    """A list of words for each device; [] where there is none."""
    try:
        out = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"], capture_output=True,
                             text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [[word.strip() for word in line.split(",")] for line in out.splitlines() if line.strip()]


def gpu_free():
    """Free bytes of each device."""
    return [int(words[0]) << 20 for words in nvidia_smi("memory.free") if words[0].isdigit()]


def memory_free():
    """Bytes that a process can still take of the host's memory."""
    with open("/proc/meminfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def disk_free(path):
    return shutil.disk_usage(path).free


class GpuPeak:
    """The most memory that is in use on all devices while its block runs, beyond what was before."""

    def __init__(self, on):
        self.on, self.peak, self.over = on, 0, threading.Event()

    def used(self):
        return sum(int(words[0]) << 20 for words in nvidia_smi("memory.used") if words[0].isdigit())

    def watch(self):
        while not self.over.wait(0.5):
            self.peak = max(self.peak, self.used() - self.before)

    def __enter__(self):
        if self.on:
            self.before = self.used()
            self.thread = threading.Thread(target=self.watch, daemon=True)
            self.thread.start()
        return self

    def __exit__(self, *_):
        if self.on:
            self.over.set()
            self.thread.join()

    def bytes(self):
        return self.peak if self.on else None


def interruptible():
    """In a child: also where this process ignores interruptions."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Group:
    """Processes that run at a time: all end well, or none of them is left. What takes too long is killed; `interrupts`:
    it is interrupted before, so that it can write what it has."""

    def __init__(self, timeout_s, interrupts=False):
        self.timeout_s, self.running, self.interrupts = timeout_s, [], interrupts

    def start(self, name, words, log, cwd=None, env=None):
        """What it says goes to the file `log`."""
        with open(log, "ab") as f:
            f.write(("$ " + " ".join(words) + "\n").encode())
            f.flush()
            try:
                process = subprocess.Popen(words, stdout=f, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=cwd,
                                           env={**os.environ, **(env or {})}, start_new_session=True, preexec_fn=interruptible)
            except OSError as e:
                self.stop()
                raise Failed(f"{name} cannot be started: {e}") from e
        self.running.append((name, process, log))

    def stop(self):
        for _, process, _ in self.running:
            if process.returncode is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
        self.running = []

    def wait(self):
        """The greatest resident memory of one, or Failed, which has the end of what was said."""
        end, most, over, ended = time.monotonic() + self.timeout_s, 0, False, ""
        left = list(self.running)
        try:
            while left:
                for item in list(left):
                    name, process, log = item
                    pid, status, used = os.wait4(process.pid, os.WNOHANG)
                    if pid == 0:
                        continue
                    process.returncode = os.waitstatus_to_exitcode(status)
                    most = max(most, used.ru_maxrss * 1024)
                    left.remove(item)
                    if process.returncode != 0:
                        ended = ended or f"{name} ended with status {process.returncode}: {tail(log)}"
                        if not over:  # else: each writes what it has
                            raise Failed(ended)
                if left and time.monotonic() > end and self.interrupts and not over:
                    over, end = True, end + GRACE_S
                    for _, process, _ in left:
                        os.killpg(process.pid, signal.SIGINT)
                elif left and time.monotonic() > end:
                    raise TimedOut(f"{left[0][0]} took longer than {self.timeout_s:.0f} s: {tail(left[0][2])}")
                if left:
                    time.sleep(0.01)
            if ended:
                raise TimedOut(ended)
        finally:
            self.stop()
        return most


def tail(path, lines=3):
    with open(path, encoding="utf-8", errors="backslashreplace") as f:
        said = [line.strip() for line in f if line.strip()]
    return " | ".join(said[-lines:])[-500:]
