//! Why a command ends early.

use specreel_record::Failure;

#[derive(Debug)]
pub enum End {
    /// It failed; not yet reported.
    Failed(Failure),
    /// It ended with this code; everything has been printed.
    Reported(i32),
    /// The reader of stdout has gone.
    PipeClosed,
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        End::Failed(failure)
    }
}

impl From<specreel_speculate::MethodError> for End {
    fn from(error: specreel_speculate::MethodError) -> Self {
        End::Failed(error.into())
    }
}

impl From<std::io::Error> for End {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return End::PipeClosed;
        }
        End::Failed(Failure::internal(format!("cannot write the output: {error}"), "is the disk full?"))
    }
}
