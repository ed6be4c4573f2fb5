//! Turns on the processor.

/// Ask for short turns, with which the calling thread runs as soon as it has something to do.
///
/// Between a key and its frame three threads wake each other. Where models are computed on all processors, each of them would wait for
/// a turn of some milliseconds to end. From Linux 6.12 on, a thread that asks for shorter turns than the others need not wait; it
/// gets no more of the processor in all. Elsewhere nothing changes.
pub(crate) fn ask_for_short() {
    #[cfg(target_os = "linux")]
    {
        /// The shortest turns that the kernel gives.
        const NANOSECONDS: u64 = 100_000;
        const SIZE: u32 = size_of::<libc::sched_attr>() as u32;
        // SAFETY: numbers, of which all zeros are a value.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes at most `SIZE` bytes.
        let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
        if got != 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
            return;
        }
        attributes.sched_runtime = NANOSECONDS;
        // Threads started from here compute.
        attributes.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
        // SAFETY: the kernel reads the structure, whose size is in it.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}
