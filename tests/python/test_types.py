"""test_types.py PACKAGE_PARENT: mypy --strict finds nothing. Skipped (77) without mypy."""
import os
import subprocess
import sys
import tempfile

python = sys.executable
for tried in (python, "mypy"):
    command = [tried, "-m", "mypy"] if tried == python else [tried]
    try:
        if subprocess.run(command + ["--version"], capture_output=True, check=False).returncode == 0:
            break
    except OSError:
        pass
else:
    print("there is no mypy (PyPI: mypy): skipped")
    sys.exit(77)
with tempfile.TemporaryDirectory() as cache:
    sys.exit(subprocess.run(
        command + ["--strict", "--cache-dir", cache, "--python-executable", python, "-p", "uvcc"],
        env={**os.environ, "MYPYPATH": sys.argv[1]}, check=False).returncode)
