#!/bin/sh
# SPDX-License-Identifier: MIT
# Generated kernels written for threads, with their device form.
exec build/tests/fuzz_kernels --threads 1000 1
