//! Names the commit that a release is built from, for `specreel --version`.
//!
//! `SPECREEL_COMMIT` gives it where there is no repository. Debug builds have none: every commit would rebuild them.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=SPECREEL_COMMIT");
    let given = env::var("SPECREEL_COMMIT").ok();
    if let Some(commit) = given.or_else(of_repository).filter(|commit| !commit.is_empty()) {
        println!("cargo:rustc-env=SPECREEL_COMMIT={commit}");
    }
}

/// The commit of this directory's own repository, not of one around it.
fn of_repository() -> Option<String> {
    let head = Path::new(".git/logs/HEAD");
    if env::var("PROFILE").ok()? != "release" || !head.exists() {
        return None;
    }
    println!("cargo:rerun-if-changed={}", head.display());
    let shown = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    shown.status.success().then(|| String::from_utf8_lossy(&shown.stdout).trim().to_owned())
}
