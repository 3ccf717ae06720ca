//! How the library is linked.
//!
//! It stays in memory once it is loaded: threads of the engine run in it, and threads of the host that called
//! it run its destructors when they end, also after it was closed.
//!
//! Functions with the same instructions are kept once: every crate has its own copies of generic code. Rust's
//! own linker, which links on x86-64, can do that; others need not.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        if var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
            println!("cargo::rustc-cdylib-link-arg=-Wl,--icf=all");
        }
    }
}
