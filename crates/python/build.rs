//! The library stays in memory once it is loaded: threads of the engine run in it, and threads of the host
//! that called it run its destructors when they end, also after it was closed.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
