//! The specreel program: parse, dispatch, exit code; nothing else.

use std::sync::Arc;

use specreel::{
    cli::{self, EnginePort, Ports},
    engine::{Command, Engine, EngineHandle},
    record::{Failure, FailureClass},
};

fn main() {
    let ports = Ports {
        engine: || {
            let (handle, events) = Engine::start()?;
            Ok((Arc::new(Port(handle)), events))
        },
        studio: |_| {
            Err(Failure { class: FailureClass::Internal, error: "this build has no studio".into(), hint: None })
        },
    };
    std::process::exit(cli::run(std::env::args_os(), &ports));
}

/// The engine as the command line sees it.
struct Port(EngineHandle);

impl EnginePort for Port {
    fn send(&self, command: Command) -> Result<(), Failure> {
        self.0.send(command)
    }

    fn cancel(&self, run: u64) {
        self.0.cancel(run);
    }
}
