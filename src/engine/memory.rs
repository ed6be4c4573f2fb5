//! What the process takes of the machine's memory.

/// Peak resident memory of this process in bytes; 0 where the system does not tell.
pub fn peak() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory for one `rusage`, which the call fills.
    let told = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } == 0;
    if !told {
        return 0;
    }
    // SAFETY: the call succeeded, and zeroed memory is a valid `rusage` in any case.
    let peak = unsafe { usage.assume_init() }.ru_maxrss;
    // Linux counts in KiB, macOS in bytes.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    u64::try_from(peak).unwrap_or(0) * unit
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_running_process_takes_memory() {
        assert!(super::peak() > 1 << 20);
    }
}
