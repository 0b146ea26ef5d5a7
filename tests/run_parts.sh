#!/usr/bin/env bash
# All that CI runs: the packages and .venv, which the rest needs, and then the parts side by side (tests/run_parts.py).
set -euo pipefail
cd "$(dirname "$0")/.."

make packages
packages=$SECONDS
make environment
exec .venv/bin/python -m tests.run_parts packages="$packages" environment="$((SECONDS - packages))"
