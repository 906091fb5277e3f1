#!/bin/sh
# runtime_size.sh LIBRARY BYTES FOLDER GPU-BYTES: weighs what is loaded of a library, and apart from it the images and the
# text of GPU code in it, which lie in the folder. Fails when either is heavier. What fills pages up is not counted: it
# depends on the size of the images.
set -eu
images=0
for image in "$3"/*.fatbin "$3"/*.cuh; do
    [ ! -f "$image" ] || images=$((images + $(stat -L -c %s "$image")))
done
loaded=$(size -A -d "$1" | awk '/^\./ && $3 > 0 && !/^\.t?bss/ { bytes += $2 } END { printf "%d", bytes }')
rest=$((loaded - images))
echo "$1: $rest bytes, and $images bytes of code for GPUs"
[ "$rest" -gt 0 ] && [ "$rest" -lt "$2" ] && [ "$images" -lt "$4" ]
