"""`serve.py RECORD PORT MODULE`: serve MODULE.application, after this process has written into RECORD who it is.

Runs in the control plane's own virtual environment.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

record, port, module = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
record.write_text(f"{os.getpid()} {started}\n")
# The services would read our words as theirs.
sys.argv = [module]
application = importlib.import_module(module).application

from waitress import serve  # noqa: E402 (it is imported after the service, whose clock and threads it has to take as they are)

serve(application, host="127.0.0.1", port=port, threads=8)
