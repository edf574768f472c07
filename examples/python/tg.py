# SPDX-License-Identifier: MIT
"""tg for Python: kernels as text, matrix products and attention over NumPy arrays, through libtg_jit.so.0.

    import numpy, tg
    c = tg.Context()
    scale = c.kernel("kernel scale(N in 1..1000000) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = 2 * x[i]; }")
    x = numpy.ones(1000, numpy.float32); y = numpy.empty_like(x)
    scale(x, y, N=1000)                              # buffers in order of definition, parameters by name
    z = c.matmul(a, b)                               # [..., m, k] by [k, n]
    o = c.attention(q, k, v, causal=True)            # [batch, heads, tokens, head] each

A wrong argument raises tg.Error, whose text names the place and the reason. Arrays must be contiguous; nothing is
copied. The library is found by TG_LIBRARY, beside this file's tree (build/), or by the system's loader.
"""
import ctypes as C
import os
import weakref

import numpy as np

_types = {"bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8, "uint64": 9,
          "float16": 10, "float32": 12, "float64": 13}      # tg_type
i64, u32, i32, u8, size, ptr, text = C.c_int64, C.c_uint32, C.c_int32, C.c_uint8, C.c_size_t, C.c_void_p, C.c_char_p


def _struct(name, *fields):
    return type(name, (C.Structure,), {"_fields_": [(n, t) for n, t in fields]})


# The structs of tg/tg.h, tg/gemm.h and tg/attention.h, field by field.
_Allocator = _struct("tg_allocator", ("alloc", ptr), ("free", ptr), ("user", ptr))
_LOG = C.CFUNCTYPE(None, ptr, text)
_ContextOptions = _struct("tg_context_options", ("allocator", _Allocator), ("log", _LOG), ("log_user", ptr), ("cache", text),
                          ("target", text), ("threads", C.c_int), ("flags", u32), ("tuned", text), ("compiled", ptr))
_Binding = _struct("tg_binding", ("name", text), ("lo", i64), ("hi", i64), ("multiple", i64))
_CompileOptions = _struct("tg_compile_options", ("bindings", C.POINTER(_Binding)), ("bindings_n", u32), ("opts", text),
                          ("user", ptr), ("flags", u32), ("kernel", text), ("pack", text), ("device", ptr))
_BufferDesc = _struct("tg_buffer_desc", ("name", text), ("type", C.c_int), ("read", u8), ("written", u8))
_ParamInfo = _struct("tg_param_info", ("name", text), ("lo", i64), ("hi", i64), ("multiple", i64))
_KernelInfo = _struct("tg_kernel_info", ("name", text), ("buffers", C.POINTER(_BufferDesc)), ("params", C.POINTER(_ParamInfo)),
                      ("buffers_n", u32), ("params_n", u32), ("phases", u32), ("workspace", size), ("from_cache", C.c_int),
                      ("tuned", C.c_int))
_Argument = _struct("tg_argument", ("data", ptr), ("bytes", size))
_Launch = _struct("tg_launch", ("buffers", C.POINTER(_Argument)), ("buffers_n", u32), ("params", C.POINTER(i64)),
                  ("params_n", u32), ("threads", C.c_int), ("parallel_for", ptr), ("parallel_user", ptr),
                  ("workspace", ptr), ("workspace_bytes", size))
_Dim = _struct("tg_dim", ("lo", i64), ("hi", i64))
_Arg = _struct("arg", ("name", text), ("type", u8), ("per", u8))
_GemmDesc = _struct("tg_gemm_desc", ("a", u8), ("b", u8), ("c", u8), ("acc", u8), ("a_major", u8), ("b_major", u8),
                    ("c_major", u8), ("alpha", u8), ("beta", u8), ("m", _Dim), ("n", _Dim), ("k", _Dim), ("a_ld", _Dim),
                    ("b_ld", _Dim), ("c_ld", _Dim), ("epilogue", text), ("arg", _Arg * 8), ("threads", i32), ("flags", u32))
_GemmCall = _struct("tg_gemm_call", ("m", i64), ("n", i64), ("k", i64), ("a", ptr), ("b", ptr), ("c", ptr),
                    ("a_strides", i64 * 2), ("b_strides", i64 * 2), ("c_strides", i64 * 2), ("alpha", ptr), ("beta", ptr),
                    ("arg", ptr * 8), ("arg_ld", i64 * 8), ("batch", i64), ("batch_strides", ptr), ("a_list", ptr),
                    ("b_list", ptr), ("c_list", ptr), ("group_m", ptr), ("workspace", ptr), ("workspace_bytes", size))
_AttentionDesc = _struct("tg_attention_desc", ("q", u8), ("k", u8), ("v", u8), ("o", u8), ("causal", u8), ("lse", u8),
                         ("base2", u8), ("alibi", u8), ("mask", u8), ("mask_per", u8), ("heads", i32), ("kv_heads", i32),
                         ("head", i32), ("value_head", i32), ("queries", _Dim), ("keys", _Dim), ("window", i64),
                         ("scale", ptr), ("soft_cap", C.c_float), ("score_mod", text), ("mask_mod", text), ("arg", _Arg * 8),
                         ("threads", i32), ("flags", u32))
_AttentionCall = _struct("tg_attention_call", ("batch", i64), ("queries", i64), ("keys", i64), ("q", ptr), ("k", ptr),
                         ("v", ptr), ("o", ptr), ("lse", ptr), ("q_strides", i64 * 3), ("k_strides", i64 * 3),
                         ("v_strides", i64 * 3), ("o_strides", i64 * 3), ("query_starts", ptr), ("key_starts", ptr),
                         ("key_lengths", ptr), ("slopes", ptr), ("mask", ptr), ("mask_strides", i64 * 4), ("arg", ptr * 8),
                         ("arg_strides", i64 * 4 * 8), ("blocks", ptr), ("workspace", ptr), ("workspace_bytes", size))


class Error(Exception):
    pass


def _open():
    here = os.path.dirname(os.path.abspath(__file__))
    for path in os.environ.get("TG_LIBRARY"), os.path.join(here, "..", "..", "build", "libtg_jit.so.0"), "libtg_jit.so.0":
        if path and (os.sep not in path or os.path.exists(path)):
            return C.CDLL(path)
    raise Error("libtg_jit.so.0 is not found: TG_LIBRARY names it")


_tg = _open()
_context, _kernel = ptr, ptr
for _name, _result, *_takes in [
        ("tg_context_create_sized", C.c_int, C.POINTER(_ContextOptions), size, C.POINTER(ptr)), ("tg_context_free", None, ptr),
        ("tg_error_message", text, ptr), ("tg_status_name", text, C.c_int), ("tg_version", C.c_int),
        ("tg_kernel_compile_text_sized", C.c_int, ptr, text, text, C.POINTER(_CompileOptions), size, C.POINTER(ptr)),
        ("tg_kernel_free", None, ptr), ("tg_kernel_describe", C.POINTER(_KernelInfo), ptr),
        ("tg_kernel_run_sized", C.c_int, ptr, C.POINTER(_Launch), size),
        ("tg_gemm_plan_sized", C.c_int, ptr, C.POINTER(_GemmDesc), size, C.POINTER(ptr)), ("tg_gemm_free", None, ptr),
        ("tg_gemm_workspace_sized", size, ptr, C.POINTER(_GemmCall), size),
        ("tg_gemm_run_sized", C.c_int, ptr, C.POINTER(_GemmCall), size),
        ("tg_attention_plan_sized", C.c_int, ptr, C.POINTER(_AttentionDesc), size, C.POINTER(ptr)),
        ("tg_attention_free", None, ptr), ("tg_attention_workspace_sized", size, ptr, C.POINTER(_AttentionCall), size),
        ("tg_attention_run_sized", C.c_int, ptr, C.POINTER(_AttentionCall), size)]:
    _f = getattr(_tg, _name)
    _f.restype, _f.argtypes = _result, _takes

_run_kernel, _launch_bytes = _tg.tg_kernel_run_sized, C.sizeof(_Launch)


def _type(array):
    if str(array.dtype) not in _types:
        raise Error(f"no type of tg's is like {array.dtype}")
    return _types[str(array.dtype)]


_address, _first_byte = C.addressof, C.c_char.from_buffer


def _data(array):
    try:
        return _address(_first_byte(array))     # a third of the time of the array's interface, which has all else, too
    except (TypeError, ValueError):             # not writable; without elements
        return array.__array_interface__["data"][0]


class Context:
    """Compiles and keeps kernels; cache: a folder that keeps them beyond the process; threads: of launches, 0: all cores."""

    def __init__(self, cache=None, threads=0, target=None):
        self._said, self._handle, self._plans, self._kernels = [], ptr(), {}, []
        self._log = _LOG(lambda user, message: self._said.append(message.decode()))
        options = _ContextOptions(log=self._log, cache=cache and cache.encode(), threads=threads, target=target and target.encode())
        if _tg.tg_context_create_sized(options, C.sizeof(options), self._handle):
            raise Error("; ".join(self._said) or "no context")
        self.close = weakref.finalize(self, _close, self._handle, self._plans, self._kernels, self._log)   # also as the program ends

    def _check(self, status):
        if status:
            raise Error(_tg.tg_error_message(self._handle).decode() or _tg.tg_status_name(status).decode())

    def kernel(self, source, file="kernel.tg", name=None, schedule=None, **sizes):
        """A kernel of a text. sizes: a number, or (lo, hi) or (lo, hi, multiple) of a parameter that each call gives."""
        bind = (_Binding * max(1, len(sizes)))()
        for b, (key, v) in zip(bind, sizes.items()):
            v = (v, v) if isinstance(v, int) else tuple(v)
            b.name, b.lo, b.hi, b.multiple = key.encode(), v[0], v[1], v[2] if len(v) > 2 else 1
        options = _CompileOptions(bindings=bind, bindings_n=len(sizes), opts=schedule and schedule.encode(), kernel=name and name.encode())
        handle = ptr()
        self._check(_tg.tg_kernel_compile_text_sized(self._handle, file.encode(), source.encode(), options, C.sizeof(options), handle))
        return Kernel(self, handle)

    def _plan(self, kind, key, desc):
        if key not in self._plans:
            handle = ptr()
            self._check(getattr(_tg, f"tg_{kind}_plan_sized")(self._handle, desc, C.sizeof(desc), handle))
            self._plans[key] = handle, kind, {}
        return self._plans[key]

    def _run(self, plan, call, sizes):
        handle, kind, workspaces = plan
        if sizes not in workspaces:     # of calls of these sizes; a Context is for one thread at a time
            bytes = getattr(_tg, f"tg_{kind}_workspace_sized")(handle, call, C.sizeof(call))
            workspaces[sizes] = np.empty(bytes + 64, np.uint8)
        call.workspace, call.workspace_bytes = workspaces[sizes].ctypes.data, workspaces[sizes].nbytes
        self._check(getattr(_tg, f"tg_{kind}_run_sized")(handle, call, C.sizeof(call)))

    def matmul(self, a, b, out=None, epilogue=None, **arguments):
        """a [..., m, k] by b [k, n]. epilogue: an expression over acc and the arguments, each with n numbers: "max(acc + bias, 0)"."""
        a, b = np.ascontiguousarray(a), np.asarray(b)
        column = b.ndim == 2 and b.flags.f_contiguous and not b.flags.c_contiguous
        b = b if column else np.ascontiguousarray(b)
        (k, n), m = b.shape, a.size // max(1, a.shape[-1])
        if a.shape[-1] != k:
            raise Error(f"a row of a has {a.shape[-1]} numbers, a column of b {k}")
        out = np.empty(a.shape[:-1] + (n,), np.int32 if a.dtype.kind in "iu" else a.dtype) if out is None else out
        if out.shape != a.shape[:-1] + (n,) or not out.flags.c_contiguous:
            raise Error(f"out must be contiguous, of the shape {a.shape[:-1] + (n,)}")
        key = "gemm", a.dtype, b.dtype, out.dtype, column, n, k, epilogue, tuple((x, v.dtype) for x, v in arguments.items())
        if key in self._plans:
            plan = self._plans[key]
        else:
            desc = _GemmDesc(a=_type(a), b=_type(b), c=_type(out), b_major=column, m=_Dim(0, 1 << 30), n=_Dim(n, 0), k=_Dim(k, 0),
                             epilogue=epilogue and epilogue.encode(), threads=-1)
            for slot, (x, v) in zip(desc.arg, arguments.items()):
                slot.name, slot.type, slot.per = x.encode(), _type(v), 2
            plan = self._plan("gemm", key, desc)
        call = _GemmCall(m=m, a=a.ctypes.data, b=b.ctypes.data, c=out.ctypes.data)
        for i, (x, v) in enumerate(arguments.items()):
            if v.shape != (n,) or not v.flags.c_contiguous:
                raise Error(f"{x} must have {n} numbers")
            call.arg[i] = v.ctypes.data
        self._run(plan, call, m)
        return out

    def attention(self, q, k, v, causal=False, window=0, soft_cap=0.0, score_mod=None, mask_mod=None):
        """q [batch, heads, tokens, head], k and v [batch, kv_heads, keys, head] each; causal: the last query sees all keys."""
        q, k, v = (np.ascontiguousarray(x) for x in (q, k, v))
        (batch, heads, queries, head), (_, kv_heads, keys, value_head) = q.shape, v.shape
        if k.shape != (batch, kv_heads, keys, head) or v.shape[0] != batch:
            raise Error(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit each other")
        out = np.empty((batch, heads, queries, value_head), q.dtype)
        key = ("attention", q.dtype, k.dtype, v.dtype, heads, kv_heads, head, value_head, causal, window, soft_cap, score_mod, mask_mod)
        desc = _AttentionDesc(q=_type(q), k=_type(k), v=_type(v), causal=2 * bool(causal), heads=heads, kv_heads=kv_heads, head=head,
                              value_head=value_head, queries=_Dim(0, 1 << 30), keys=_Dim(0, 1 << 30), window=window,
                              soft_cap=soft_cap, score_mod=score_mod and score_mod.encode(), mask_mod=mask_mod and mask_mod.encode(),
                              threads=-1)
        call = _AttentionCall(batch=batch, queries=queries, keys=keys, q=q.ctypes.data, k=k.ctypes.data, v=v.ctypes.data, o=out.ctypes.data)
        self._run(self._plan("attention", key, desc), call, (batch, queries, keys))
        return out


def _close(context, plans, kernels, log):
    for handle, kind, _ in plans.values():
        getattr(_tg, f"tg_{kind}_free")(handle)
    for kernel in kernels:
        _tg.tg_kernel_free(kernel)
    _tg.tg_context_free(context)


class Kernel:
    """Lives as long as its context. A Kernel is for one thread at a time, as its context is."""

    def __init__(self, context, handle):
        context._kernels.append(handle)
        self._context, self._handle = context, handle
        info = _tg.tg_kernel_describe(handle).contents
        numpy_type = {number: np.dtype(name) for name, number in _types.items()}
        self.name = info.name.decode()
        self.buffers = [(b.name.decode(), numpy_type.get(b.type, np.dtype(np.uint16 if b.type == 11 else np.uint8)), bool(b.written))
                        for b in info.buffers[:info.buffers_n]]      # bf16 as uint16, floats of 8 bits as uint8
        self.params = [p.name.decode() for p in info.params[:info.params_n]]
        self._data, self._values = (_Argument * max(1, info.buffers_n))(), (i64 * max(1, info.params_n))()
        self._launch = _Launch(buffers=self._data, buffers_n=info.buffers_n, params=self._values, params_n=info.params_n)
        self._by_reference = C.byref(self._launch)
        self._slots, self._names = tuple(zip(self._data, self.buffers)), frozenset(self.params)

    def __call__(self, *arrays, threads=-1, **params):
        """Arrays in the order of .buffers, each contiguous and of the buffer's type; all .params by name."""
        if len(arrays) != len(self._slots) or params.keys() != self._names:
            raise Error(f"{self.name} takes the buffers {[b[0] for b in self.buffers]} and the parameters {self.params}")
        for (slot, (name, dtype, written)), array in zip(self._slots, arrays):
            flags = array.flags
            if not flags.c_contiguous or array.dtype != dtype or (written and not flags.writeable):
                why = f"of {array.dtype}, not of {dtype}" if array.dtype != dtype else "read-only, and it is written" if flags.c_contiguous else "not contiguous"
                raise Error(f"{self.name}: {name} is {why}")
            slot.data, slot.bytes = _data(array), array.nbytes
        for i, name in enumerate(self.params):
            self._values[i] = params[name]
        self._launch.threads = threads
        if _run_kernel(self._handle, self._by_reference, _launch_bytes):
            self._context._check(1)
