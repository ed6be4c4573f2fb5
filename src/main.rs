//! The specreel program: parse, dispatch, exit code; nothing else.

use specreel::{
    cli::{self, Ports},
    record::{Failure, FailureClass},
};

fn main() {
    let ports = Ports { engine: || Err(absent("engine")), studio: |_| Err(absent("studio")) };
    std::process::exit(cli::run(std::env::args_os(), &ports));
}

/// A room that this build lacks.
fn absent(room: &str) -> Failure {
    Failure { class: FailureClass::Internal, error: format!("this build has no {room}"), hint: None }
}
