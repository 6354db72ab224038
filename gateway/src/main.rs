//! The `lobgate` binary: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    lobgate::cli::main()
}
