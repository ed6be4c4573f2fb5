//! Arguments of `specreel doctor`.

use std::path::PathBuf;

use clap::Args;

use super::run::{MODELS, OUTPUT};
use super::values::{device, dtype};
use specreel_tensor::{DeviceChoice, WeightType};

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Target model to load: a directory, or the id of a cached model [default: embedded pair]
    #[arg(long, value_name = "DIR|ID", help_heading = MODELS)]
    pub target: Option<PathBuf>,
    /// Drafter to load: a directory, a GGUF file, or the id of a cached model
    #[arg(long, value_name = "DIR|ID", help_heading = MODELS)]
    pub drafter: Option<PathBuf>,
    /// Device to load them on, as for `caption`
    #[arg(long, value_name = "DEVICE", value_parser = device, help_heading = MODELS)]
    pub device: Option<DeviceChoice>,
    /// Weight type to load them in, as for `caption`
    #[arg(long, value_name = "TYPE", value_parser = dtype, help_heading = MODELS)]
    pub dtype: Option<WeightType>,
    /// Print JSON
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}
