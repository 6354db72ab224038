//! The `lobgate` binary: everything is in the library, save the allocator.

use std::process::ExitCode;

// Requests allocate dozens of short-lived values on one thread and free them on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    lobgate::cli::main()
}
