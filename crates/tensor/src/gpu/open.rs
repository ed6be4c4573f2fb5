//! Opening a GPU by number.

use super::{
    Gpu,
    adapter::{Adapter, NONE, adapters},
    context::plain_requested,
};
use specreel_record::{Failure, FailureClass};

const HINT: &str =
    "specreel doctor lists the devices, docs/devices.md the drivers; --device cpu always works";

fn absent(error: String) -> Failure {
    Failure { class: FailureClass::Input, error, hint: Some(HINT.into()) }
}

impl Gpu {
    /// Open the GPU of this number, as `specreel doctor` lists them; `None` for the best. `SPECREEL_GPU=plain` opens it with
    /// kernels in their plain forms. Opening a GPU again makes a new device, which knows nothing of an earlier one's loss. Fails
    /// if this machine lacks the GPU, or it cannot be used (class input).
    pub fn open(number: Option<usize>) -> Result<Gpu, Failure> {
        let all = adapters();
        let there = all.len();
        let number = number.unwrap_or(0);
        let Some(adapter) = all.into_iter().nth(number) else {
            return Err(absent(match there {
                0 => format!("no GPU: {NONE}"),
                1 => format!("no GPU {number}: this machine has gpu:0 only"),
                n => format!("no GPU {number}: this machine has gpu:0 to gpu:{}", n - 1),
            }));
        };
        let name = adapter.label();
        Self::open_adapter(adapter, plain_requested())
            .map_err(|why| absent(format!("{name} cannot be used: {why}")))
    }

    /// Open the best GPU that really is one; `None` without one, or if it cannot be used.
    pub(crate) fn open_real() -> Option<Gpu> {
        let real = adapters().into_iter().find(Adapter::is_real)?;
        Self::open_adapter(real, plain_requested()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_beyond_the_last_is_refused_with_those_there_are() {
        let there = adapters().len();
        let failure = Gpu::open(Some(there + 8)).unwrap_err();
        assert_eq!(failure.class, FailureClass::Input);
        match there {
            0 => assert!(failure.error.starts_with("no GPU: "), "{}", failure.error),
            1 => assert!(failure.error.ends_with("this machine has gpu:0 only"), "{}", failure.error),
            n => assert!(failure.error.ends_with(&format!("to gpu:{}", n - 1)), "{}", failure.error),
        }
    }
}
