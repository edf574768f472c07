#!/bin/sh
# SPDX-License-Identifier: MIT
# Kernels written for threads, on the host and in device form: docs/testing.md.
cd "$(dirname "$0")/../.."
exec build/tests/fuzz_kernels --threads 1000 1
