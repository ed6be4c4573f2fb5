//! Memory that the process uses, and memory that the machine has left.

#[cfg(any(unix, test))]
mod proc;

/// Peak resident memory of this process in bytes; 0 if the system does not report it.
pub fn peak() -> u64 {
    #[cfg(unix)]
    {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to memory for one `rusage`, which the call fills.
        if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
            return 0;
        }
        // SAFETY: the call succeeded, and zeroed memory is a valid `rusage` in any case.
        let peak = unsafe { usage.assume_init() }.ru_maxrss;
        // Linux counts in KiB, macOS in bytes.
        let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
        u64::try_from(peak).unwrap_or(0) * unit
    }
    #[cfg(windows)]
    usage().map_or(0, |usage| usage.PeakWorkingSetSize as u64)
}

#[cfg(windows)]
fn usage() -> Option<windows_sys::Win32::System::ProcessStatus::PROCESS_MEMORY_COUNTERS> {
    use windows_sys::Win32::System::{
        ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS},
        Threading::GetCurrentProcess,
    };
    let mut usage = PROCESS_MEMORY_COUNTERS::default();
    let size = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
    // SAFETY: the pointer is to memory for so many bytes; the handle of the calling process is always valid.
    (unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut usage, size) } != 0).then_some(usage)
}

/// Resident memory of this process in bytes, including `mapped` bytes of files that may not have been read
/// yet but will be; its peak so far if the system does not report it.
pub fn resident(mapped: u64) -> u64 {
    #[cfg(unix)]
    return proc::resident(mapped).unwrap_or_else(peak);
    #[cfg(windows)]
    {
        let _ = mapped;
        usage().map_or(0, |usage| usage.WorkingSetSize as u64)
    }
}

/// Bytes that this process may still allocate: the machine's available memory, or less if a control group or the process's own
/// limit says so. `None` if the system does not report it.
pub fn available() -> Option<u64> {
    #[cfg(unix)]
    {
        let machine = proc::available()?;
        Some(proc::own_limit().map_or(machine, |own| own.min(machine)))
    }
    #[cfg(windows)]
    {
        use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
        let size = size_of::<MEMORYSTATUSEX>() as u32;
        let mut state = MEMORYSTATUSEX { dwLength: size, ..MEMORYSTATUSEX::default() };
        // SAFETY: the pointer is to memory for so many bytes as its first field says.
        (unsafe { GlobalMemoryStatusEx(&raw mut state) } != 0)
            .then_some(state.ullAvailPhys.min(state.ullAvailPageFile))
    }
}

/// Ask for huge pages for memory that is not written yet, where the system has them: a fault for each small page of a model takes
/// seconds, and holds up the threads that draw and answer. Only Linux can be asked.
pub fn want_huge_pages<T>(values: &[T]) {
    #[cfg(target_os = "linux")]
    {
        /// Bytes of a huge page; a smaller array has none.
        const HUGE_PAGE: usize = 2 << 20;
        let std::ops::Range { start, end } = values.as_ptr_range();
        let page = rustix::param::page_size();
        let (start, end) = ((start as usize).next_multiple_of(page), end as usize / page * page);
        if end.saturating_sub(start) >= HUGE_PAGE {
            // SAFETY: whole pages of an allocation, whose contents stay. Without huge pages nothing changes.
            let _ = unsafe {
                rustix::mm::madvise(start as *mut _, end - start, rustix::mm::Advice::LinuxHugepage)
            };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = values;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn this_machine_reports_its_memory() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn a_running_process_uses_memory() {
        assert!(peak() > 1 << 20);
    }
}
