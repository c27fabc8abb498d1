#!/bin/sh
# Install Retoma from this folder, without a network: ./install.sh [FOLDER]. FOLDER (./retoma) becomes a virtual
# environment with the command FOLDER/bin/retoma. PYTHON names the Python to use.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
to=${1:-retoma}
tag=$(cat "$here/TAG")

fail() {
    echo "install.sh: $1" >&2
    echo "Next: $2" >&2
    exit 1
}

# The wheels are for one version of Python on one kind of machine.
wanted=${tag%%-*}
fits() {
    "$1" -c 'import sys, sysconfig
tag = f"cp{sys.version_info[0]}{sys.version_info[1]}-" + sysconfig.get_platform().replace("-", "_")
sys.exit(tag != sys.argv[1])' "$tag" 2>/dev/null
}
found=
for each in ${PYTHON:-python3 "python3.${wanted#cp3}"}; do
    if fits "$each"; then
        found=$each
        break
    fi
done
[ -n "$found" ] ||
    fail "this bundle is for Python 3.${wanted#cp3} on ${tag#*-}, and no such Python was found." \
        "install it, or name it as in PYTHON=/path/to/python3.${wanted#cp3} ./install.sh; or pack a bundle with your Python."
"$found" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$found has no modules venv and ensurepip, which make a virtual environment." \
        "on Debian, install the package python3-venv; its .deb can be carried here as this bundle was."

(cd "$here" && sha256sum --check --quiet --strict SHA256SUMS) ||
    fail "a file of the bundle is damaged or was changed; the lines above name it." "copy the bundle again."

[ -x "$to/bin/python" ] || "$found" -m venv "$to"
# Nothing outside this folder is asked: no index, no settings of pip, and every wheel must have the hash that is locked.
PIP_CONFIG_FILE=/dev/null "$to/bin/python" -I -m pip --isolated install -qq --disable-pip-version-check --no-input \
    --no-index --find-links "$here/wheels" --no-deps --only-binary :all: --require-hashes --no-compile \
    --requirement "$here/requirements.lock" ||
    fail "pip could not install the wheels; the lines above say why." "send these lines to whoever packed the bundle."

echo "Installed: $to/bin/retoma ($("$to/bin/retoma" --version))"
echo "Next: $to/bin/retoma demo"
