#!/bin/sh
# runtime_size.sh LIBRARY BYTES FOLDER GPU-BYTES: weighs a library, and apart from it the images and the text of GPU code in
# it, which lie in the folder. Fails when either is heavier.
set -eu
images=0
for image in "$3"/*.fatbin "$3"/*.cuh; do
    [ ! -f "$image" ] || images=$((images + $(stat -L -c %s "$image")))
done
rest=$(($(stat -L -c %s "$1") - images))
echo "$1: $rest bytes, and $images bytes of code for GPUs"
[ "$rest" -lt "$2" ] && [ "$images" -lt "$4" ]
