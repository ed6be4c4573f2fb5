//! Other programs of the user: what opens videos, and the editor.

use std::{io, path::Path};

/// The editor of a user who has chosen none.
pub const EDITOR: &str = if cfg!(windows) { "notepad" } else { "vi" };

/// Open a file in the program that the desktop has for it. That runs in a session of its own: without this program's terminal, and
/// beyond its end. The error is why it cannot be opened.
pub fn open(path: &Path) -> Result<(), String> {
    // An absolute path is no option.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
    start(&path)
}

#[cfg(unix)]
fn start(path: &Path) -> Result<(), String> {
    use std::{os::unix::process::CommandExt, process::Stdio};

    const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut opener = std::process::Command::new(OPENER);
    opener.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: between fork and exec only setsid is called, which is async-signal-safe and allocates nothing.
    unsafe { opener.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into)) };
    Err(match opener.status() {
        Ok(status) if status.success() => return Ok(()),
        // The exit codes of xdg-open.
        Ok(status) if status.code() == Some(2) => "no such file".to_owned(),
        Ok(status) if status.code() == Some(3) => "there is no desktop, or no program for videos".to_owned(),
        Ok(status) => format!("{OPENER} failed ({status})"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("{OPENER} is not installed (on Linux, package xdg-utils)")
        }
        Err(error) => format!("{OPENER}: {}", plain(&error)),
    })
}

#[cfg(windows)]
fn start(path: &Path) -> Result<(), String> {
    use std::os::windows::ffi::OsStrExt;
    use windows_sys::{
        Win32::UI::{
            Shell::{SE_ERR_ASSOCINCOMPLETE, SE_ERR_NOASSOC, ShellExecuteW},
            WindowsAndMessaging::SW_SHOWNORMAL,
        },
        w,
    };

    let path: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
    let null = std::ptr::null();
    // SAFETY: the names end with a zero; the others may be null.
    let told =
        unsafe { ShellExecuteW(std::ptr::null_mut(), w!("open"), path.as_ptr(), null, null, SW_SHOWNORMAL) };
    // Above 32 it is no error, as the function's documentation has it.
    match told as usize {
        33.. => Ok(()),
        code if [SE_ERR_NOASSOC, SE_ERR_ASSOCINCOMPLETE].contains(&(code as u32)) => {
            Err("there is no program for videos".into())
        }
        code => Err(plain(&io::Error::from_raw_os_error(code as i32))),
    }
}

/// The system's error without its number.
pub fn plain(error: &io::Error) -> String {
    let words = error.to_string();
    words.split(" (os error").next().unwrap_or_default().to_owned()
}
