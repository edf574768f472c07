#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds libggml-tg.so, the back end of ggml, against the sources of ggml that TG_GGML names: the folder that has include/ggml.h and src/ggml-impl.h.
#   TG_GGML=~/llama.cpp/ggml sh kernels/ggml/build.sh [FILE]      FILE: build/libggml-tg.so if it is not given
# It needs build/libtg.a and build/libtg_jit.a (ninja). The functions of ggml are those of the program that opens the module.
set -eu
cd "$(dirname "$0")/../.."
b=${BUILD:-build} out=${1:-${BUILD:-build}/libggml-tg.so}
[ -n "${TG_GGML:-}" ] || { echo "build.sh: TG_GGML names the folder of ggml's sources" >&2; exit 2; }
for f in include/ggml.h include/ggml-backend.h src/ggml-impl.h src/ggml-backend-impl.h; do
  [ -f "$TG_GGML/$f" ] || { echo "build.sh: TG_GGML=$TG_GGML: there is no $f" >&2; exit 2; }
done
value() { sed -n "s/^$1 = //p" "$b/config.ninja"; }
[ -f "$b/config.ninja" ] && [ -f "$b/libtg.a" ] && [ -f "$b/libtg_jit.a" ] || { echo "build.sh: $b/libtg_jit.a is not there: sh configure, and ninja" >&2; exit 2; }
mkdir -p "$b/ggml"
objects=
for f in kernels/ggml/*.c; do
  o=$b/ggml/$(basename "$f" .c).o
  # shellcheck disable=SC2046
  $(value cc) $(value cflags) -DGGML_BACKEND_DL -DGGML_BACKEND_SHARED -Iinclude -Ikernels -isystem "$TG_GGML/include" -isystem "$TG_GGML/src" -c "$f" -o "$o"
  objects="$objects $o"
done
# shellcheck disable=SC2046,SC2086
$(value cc) $(value ldflags) -shared -Wl,--exclude-libs,ALL -Wl,-soname,libggml-tg.so -Wl,-z,nodelete -o "$out" $objects "$b/libtg_jit.a" "$b/libtg.a" $(value llvm_libs) $(value base_libs)
echo "$out"
