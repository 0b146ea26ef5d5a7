"""`serve.py RECORD PORT MODULE`: serves MODULE.application; first writes this process's id and start time to RECORD.

Runs in the control plane's virtual environment.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

record, port, module = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
record.write_text(f"{os.getpid()} {started}\n")
# The services would parse the arguments of this program.
sys.argv = [module]
application = importlib.import_module(module).application

from waitress import serve  # noqa: E402 (imported after the service, which patches time and threading)

serve(application, host="127.0.0.1", port=port, threads=8)
