//! Short time slices for the threads between a key and its frame.

/// Let the calling thread, and those that it starts from now on, run soon after they wake, although the engine keeps all processors
/// busy: from Linux 6.12 on, a thread with a shorter slice may interrupt others. Earlier versions ignore it, and other systems have
/// nothing like it.
pub fn shorten() {
    #[cfg(target_os = "linux")]
    if let Err(error) = linux::set(SLICE_NS) {
        tracing::debug!("time slices are as usual: {error}");
    }
}

/// The shortest slice that Linux knows.
#[cfg(target_os = "linux")]
const SLICE_NS: u64 = 100_000;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    /// Read how the calling thread is scheduled.
    pub fn get() -> io::Result<libc::sched_attr> {
        // SAFETY: the structure consists of numbers, for which zeros are values.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::sched_attr>();
        // SAFETY: the kernel writes at most `size` bytes, and 0 is the calling thread.
        let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        if result == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
    }

    /// Set the calling thread's slice; all else stays.
    pub fn set(slice_ns: u64) -> io::Result<()> {
        let mut attributes = get()?;
        attributes.sched_runtime = slice_ns;
        // SAFETY: the kernel reads the structure, whose first field is its size.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_slice_changes_nothing_else() {
        std::thread::spawn(|| {
            let before = linux::get().unwrap();
            shorten();
            let after = linux::get().unwrap();
            assert_eq!((after.sched_policy, after.sched_nice), (before.sched_policy, before.sched_nice));
            // Earlier versions of Linux do not keep it.
            assert!([0, SLICE_NS].contains(&after.sched_runtime), "{}", after.sched_runtime);
            assert_eq!(
                std::thread::spawn(|| linux::get().unwrap().sched_runtime).join().unwrap(),
                after.sched_runtime
            );
        })
        .join()
        .unwrap();
    }
}
