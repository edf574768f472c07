#!/bin/sh
# SPDX-License-Identifier: MIT
# Kernels written for threads, on the host and in device form: docs/testing.md. Few large ones among them: those take half of the time.
cd "$(dirname "$0")/../.."
exec build/tests/fuzz_kernels --threads --steps 10000 500 1
