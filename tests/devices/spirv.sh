#!/bin/sh
# SPDX-License-Identifier: MIT
# SPIR-V for devices of OpenCL: every fifth program of the corpus, through a layer that translates it for PoCL (tests/devices/layer.c). Whole: devices_opencl --spirv.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=${BUILD:-build}
# shellcheck disable=SC2046
exec "$b/tests/devices_opencl" --spirv $(ls tests/corpus/*.tg | awk 'NR % 5 == 1')
