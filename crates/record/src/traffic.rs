//! What passes between the host and a GPU.

use serde::{Deserialize, Serialize};

/// Counts of work on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Bytes to the device, parameters of kernels included.
    #[serde(rename = "up_bytes")]
    pub up: u64,
    /// Bytes from the device.
    #[serde(rename = "down_bytes")]
    pub down: u64,
    /// Submissions: lists of kernels that the device got at once.
    pub submissions: u64,
    #[serde(rename = "kernels")]
    pub dispatches: u64,
}

impl std::ops::Add for Traffic {
    type Output = Traffic;

    fn add(self, more: Traffic) -> Traffic {
        Traffic {
            up: self.up + more.up,
            down: self.down + more.down,
            submissions: self.submissions + more.submissions,
            dispatches: self.dispatches + more.dispatches,
        }
    }
}

impl std::ops::Sub for Traffic {
    type Output = Traffic;

    fn sub(self, before: Traffic) -> Traffic {
        Traffic {
            up: self.up.saturating_sub(before.up),
            down: self.down.saturating_sub(before.down),
            submissions: self.submissions.saturating_sub(before.submissions),
            dispatches: self.dispatches.saturating_sub(before.dispatches),
        }
    }
}
