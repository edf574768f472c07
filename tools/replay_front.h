/* SPDX-License-Identifier: MIT
 * The BLAS front for tg replay: blas.c is compiled once more with these names in place of what it asks for plans, so
 * that the front itself says which plan a call belongs to. */
#ifndef TG_REPLAY_FRONT_H
#define TG_REPLAY_FRONT_H
#define tg_context_create_runtime_sized replay_front_create
#define tg_gemm_plan_sized replay_front_plan
#define tg_gemm_workspace_sized replay_front_workspace
#define tg_gemm_run_sized replay_front_run
#define tg_gemm_function replay_front_function
#define tg_blas_compute replay_front_compute
#define tg_blas_loops replay_front_loops
#define tg_blas_say replay_front_say
#define tg_gemm_describe_sized replay_front_describe
#define tg_blas_flags_hold replay_front_flags_hold
#define tg_blas_flags_settle replay_front_flags_settle
#endif
