#!/bin/sh
# report-picture.sh [BIN] - docs/pictures/report-light.png and report-dark.png: the first screen of the report of examples/digits,
# by the tools in BIN (build/dev/bin) and Chromium.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${1:-build/dev/bin}/hypatiac" examples/digits/digits.onnx -o "$folder/digits.bin" -q --report "$folder/digits.html"
for theme in light:1 dark:0; do # the numbers are Chromium's
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1280,880 \
        --blink-settings=preferredColorScheme="${theme#*:}" --screenshot="$PWD/docs/pictures/report-${theme%:*}.png" \
        "file://$folder/digits.html"
done
