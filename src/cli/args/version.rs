//! What `specreel -V` and `specreel --version` print.

use std::{ffi::CStr, sync::LazyLock};

use ffmpeg_next::{ffi, util};

macro_rules! version {
    ($devices:literal) => {
        concat!(env!("CARGO_PKG_VERSION"), " (", $devices, ")")
    };
}

/// Version, with the devices that this build supports.
pub const VERSION: &str = match (cfg!(feature = "gpu"), cfg!(feature = "cuda"), cfg!(feature = "metal")) {
    (false, false, false) => version!("cpu"),
    (false, true, false) => version!("cpu, cuda"),
    (false, false, true) => version!("cpu, metal"),
    (false, true, true) => version!("cpu, cuda, metal"),
    (true, false, false) => version!("cpu, gpu"),
    (true, true, false) => version!("cpu, gpu, cuda"),
    (true, false, true) => version!("cpu, gpu, metal"),
    (true, true, true) => version!("cpu, gpu, cuda, metal"),
};

/// [`VERSION`], commit, target and FFmpeg: what a report of a fault needs.
pub fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        // SAFETY: FFmpeg returns a string constant, which ends with a zero byte.
        let ffmpeg = unsafe { CStr::from_ptr(ffi::av_version_info()) }.to_string_lossy();
        let linked = if cfg!(feature = "static-ffmpeg") { "in the binary" } else { "of the system" };
        format!(
            "{VERSION}\ncommit: {}\ntarget: {}-{}\nFFmpeg: {ffmpeg}, {linked}, {}",
            option_env!("SPECREEL_COMMIT").unwrap_or("unknown"),
            std::env::consts::ARCH,
            std::env::consts::OS,
            util::license(),
        )
    });
    &LONG
}
