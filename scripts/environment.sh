# Sourced by scripts/trtprof and scripts/test: one virtual environment beside the sources, made on
# first use and again when pyproject.toml changes.

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
venv=${TRTPROF_VENV:-$root/.venv}

say() { printf '%s\n' "$*" >&2; }

find_python() {
  for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14 python; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      command -v "$candidate"
      return 0
    fi
  done
  say "error: no Python 3.11 or newer with the venv module is on PATH"
  say "  fix: install one (Debian: apt-get install python3 python3-venv), or set PYTHON=/path/to/python3"
  return 1
}

# ensure_environment EXTRAS: EXTRAS is empty or like [dev].
ensure_environment() {
  extras=$1
  stamp=$venv/.installed$(printf '%s' "$extras" | tr -c 'a-z\n' '-')
  if [ -x "$venv/bin/python" ] && [ -f "$stamp" ] && cmp -s "$root/pyproject.toml" "$stamp"; then
    return 0
  fi
  python=$(find_python) || return 3
  # Two first uses at once must not install into each other.
  if command -v flock >/dev/null 2>&1; then
    exec 9>"$venv.lock"
    flock 9
    if [ -f "$stamp" ] && cmp -s "$root/pyproject.toml" "$stamp"; then
      exec 9>&-
      return 0
    fi
  fi
  say "trtprof: first use, installing into $venv (about a minute; ONNX Runtime alone is 240 MB)"
  if ! { "$python" -m venv "$venv" &&
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root$extras" 2>"$venv/pip.log" 1>&2; }; then
    tail -n 20 "$venv/pip.log" >&2 2>/dev/null || true
    say "error: the installation failed"
    say "  fix: check the network and the disk (2 GB), then run the command again; the log is $venv/pip.log"
    return 3
  fi
  cp "$root/pyproject.toml" "$stamp"
  if command -v flock >/dev/null 2>&1; then exec 9>&-; fi
}
