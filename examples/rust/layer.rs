// SPDX-License-Identifier: MIT
// tg from Rust, through libtg_jit.so.0 alone: a kernel as text is compiled once, for any number of rows, and launched
// on slices. What is wrong with a text or with a launch comes back as an Err with its place and reason.
//
//     rustc -O examples/rust/layer.rs -o layer -C link-arg=build/libtg_jit.so.0 && LD_LIBRARY_PATH=build ./layer
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

// Of tg/tg.h, field by field. tg_context_options stays a null pointer here: every default.
#[repr(C)]
struct Binding { name: *const c_char, lo: i64, hi: i64, multiple: i64 }
#[repr(C)]
struct CompileOptions {
    bindings: *const Binding, bindings_n: u32, opts: *const c_char, user: *mut c_void, flags: u32,
    kernel: *const c_char, pack: *const c_char, device: *mut c_void,
}
#[repr(C)]
struct BufferDesc { name: *const c_char, kind: c_int, read: u8, written: u8 }
#[repr(C)]
struct KernelInfo { name: *const c_char, buffers: *const BufferDesc, params: *const c_void, buffers_n: u32 } // and more
#[repr(C)]
struct Argument { data: *mut c_void, bytes: usize }
#[repr(C)]
struct Launch {
    buffers: *const Argument, buffers_n: u32, params: *const i64, params_n: u32, threads: c_int,
    parallel_for: *const c_void, parallel_user: *mut c_void, workspace: *mut c_void, workspace_bytes: usize,
}
extern "C" {
    fn tg_context_create_sized(options: *const c_void, bytes: usize, out: *mut *mut c_void) -> c_int;
    fn tg_context_free(context: *mut c_void);
    fn tg_error_message(context: *mut c_void) -> *const c_char;
    fn tg_kernel_compile_text_sized(context: *mut c_void, file: *const c_char, text: *const c_char,
                                    options: *const CompileOptions, bytes: usize, out: *mut *mut c_void) -> c_int;
    fn tg_kernel_describe(kernel: *const c_void) -> *const KernelInfo;
    fn tg_kernel_free(kernel: *mut c_void);
    fn tg_kernel_run_sized(kernel: *mut c_void, launch: *const Launch, bytes: usize) -> c_int;
}

fn error(context: *mut c_void) -> String {
    unsafe { CStr::from_ptr(tg_error_message(context)) }.to_string_lossy().into_owned()
}

struct Context(*mut c_void);
impl Context {
    fn new() -> Result<Context, String> {
        let mut c = null_mut();
        let status = unsafe { tg_context_create_sized(null(), 0, &mut c) };
        let made = Context(c); // freed here if it failed, behind the message
        if status == 0 { Ok(made) } else if c.is_null() { Err("out of memory".into()) } else { Err(error(c)) }
    }

    /// sizes: (name, least, most); a parameter with least < most is given at each launch.
    fn kernel(&self, text: &str, sizes: &[(&str, i64, i64)]) -> Result<Kernel<'_>, String> {
        let c_text = |s: &str| CString::new(s).map_err(|e| e.to_string());
        let text = c_text(text)?;
        let names = sizes.iter().map(|s| c_text(s.0)).collect::<Result<Vec<_>, _>>()?;
        let bindings: Vec<Binding> = sizes.iter().zip(&names)
            .map(|(s, name)| Binding { name: name.as_ptr(), lo: s.1, hi: s.2, multiple: 1 }).collect();
        let options = CompileOptions {
            bindings: bindings.as_ptr(), bindings_n: bindings.len() as u32, opts: null(), user: null_mut(), flags: 0,
            kernel: null(), pack: null(), device: null_mut(),
        };
        let mut kernel = null_mut();
        let file = c_text("layer.rs")?;
        let bytes = std::mem::size_of::<CompileOptions>();
        match unsafe {
            tg_kernel_compile_text_sized(self.0, file.as_ptr(), text.as_ptr(), &options, bytes, &mut kernel)
        } {
            0 => Ok(Kernel { kernel, context: self }),
            _ => Err(error(self.0)),
        }
    }
}
impl Drop for Context {
    fn drop(&mut self) { unsafe { tg_context_free(self.0) } }
}

/// What a launch reads, or may write.
enum Slice<'a> { In(&'a [f32]), Out(&'a mut [f32]) }

struct Kernel<'a> { kernel: *mut c_void, context: &'a Context } // no kernel outlives its context
impl Kernel<'_> {
    /// Buffers in order of definition, values of the open parameters in order of declaration. tg checks numbers and
    /// bytes of both; types, and which are written, are checked here, since tg sees only addresses.
    fn run(&self, buffers: &mut [Slice<'_>], params: &[i64]) -> Result<(), String> {
        const F32: c_int = 12;
        let info = unsafe { &*tg_kernel_describe(self.kernel) };
        for (b, given) in buffers.iter().enumerate().take(info.buffers_n as usize) {
            let wants = unsafe { &*info.buffers.add(b) };
            if wants.kind != F32 || (wants.written != 0 && matches!(given, Slice::In(_))) {
                return Err(format!("buffer {}: it is not of f32, or is written and given as In", b));
            }
        }
        let arguments: Vec<Argument> = buffers.iter_mut().map(|b| match b {
            Slice::In(s) => Argument { data: s.as_ptr() as *mut c_void, bytes: s.len() * 4 },
            Slice::Out(s) => Argument { data: s.as_mut_ptr().cast(), bytes: s.len() * 4 },
        }).collect();
        let launch = Launch {
            buffers: arguments.as_ptr(), buffers_n: arguments.len() as u32, params: params.as_ptr(),
            params_n: params.len() as u32, threads: -1, parallel_for: null(), parallel_user: null_mut(),
            workspace: null_mut(), workspace_bytes: 0,
        };
        let bytes = std::mem::size_of::<Launch>();
        if unsafe { tg_kernel_run_sized(self.kernel, &launch, bytes) } == 0 { Ok(()) } else { Err(error(self.context.0)) }
    }
}
impl Drop for Kernel<'_> {
    fn drop(&mut self) { unsafe { tg_kernel_free(self.kernel) } }
}

const LAYER: &str = "kernel layer(M, N, K) {
  in(x, f32, [M, K]); in(w, f32, [K, N]); in(bias, f32, [N]); out(y, f32, [M, N]);
  range(i, M) range(j, N) y[i, j] = max(sum(k : K, x[i, k] * w[k, j]) + bias[j], 0);
}";

fn main() -> Result<(), String> {
    let (n, k) = (70, 50);
    let context = Context::new()?;
    let layer = context.kernel(LAYER, &[("M", 1, 4096), ("N", n as i64, n as i64), ("K", k as i64, k as i64)])?;
    let numbers = |count: usize, turn: usize| -> Vec<f32> { (0..count).map(|i| (i % turn) as f32 - 2.0).collect() };
    let (w, bias) = (numbers(k * n, 5), numbers(n, 7));
    for m in [1, 33, 100] {
        let (x, mut y) = (numbers(m * k, 6), vec![0.0; m * n]);
        layer.run(&mut [Slice::In(&x), Slice::In(&w), Slice::In(&bias), Slice::Out(&mut y)], &[m as i64])?;
        for (at, got) in y.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let want = (0..k).map(|t| x[i * k + t] * w[t * n + j]).sum::<f32>() + bias[j]; // exact: small integers
            if *got != want.max(0.0) { return Err(format!("y[{}, {}] of {} rows is {}", i, j, m, got)); }
        }
        println!("{} rows: right", m);
    }
    let mut short = vec![0.0; n];
    match layer.run(&mut [Slice::In(&w), Slice::In(&w), Slice::In(&bias), Slice::Out(&mut short)], &[2]) {
        Err(why) => println!("{}", why),
        Ok(()) => return Err("a y of one row was taken for two".into()),
    }
    match context.kernel("kernel layer(M) { out(y, f32, [M]); range(i, M) y[i] = x[i]; }", &[("M", 1, 9)]) {
        Err(why) => println!("{}", why),
        Ok(_) => return Err("a text that lacks x was compiled".into()),
    }
    Ok(())
}
