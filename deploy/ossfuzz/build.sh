#!/bin/bash -eu
# Builds every fuzz target of the repository for OSS-Fuzz, in the image of the Dockerfile beside it: from the root of the
# repository, with OSS-Fuzz's helper compile_native_go_fuzzer_v2 on the path. deploy/fuzz --list says which targets there
# are, so none is forgotten.
#
# Targets in a program (package main) are left out: the helper imports the package of a target, and no program can be
# imported. deploy/fuzz runs them.
module=$(go list -m)
targets=$(deploy/fuzz --list)

while read -r folder target; do
    case $folder in
    cmd/*) continue ;;
    esac
    compile_native_go_fuzzer_v2 "$module/$folder" "$target" "$target"
done <<<"$targets"
