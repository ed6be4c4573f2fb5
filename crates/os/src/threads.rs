//! How the system shares processors among threads.

/// Niceness of threads in the background: about a third of the share of a thread without one, while both want the same processor.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 5;

/// Lower the priority of the calling thread: what people wait for goes before it. On Linux that includes the threads that it
/// starts from now on. Does nothing on macOS.
pub fn lower_priority() {
    // On Linux a niceness applies to the calling thread and those that it starts; a lower priority is always allowed.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
    #[cfg(windows)]
    {
        use windows_sys::Win32::System::Threading::{
            GetCurrentThread, SetThreadPriority, THREAD_PRIORITY_BELOW_NORMAL,
        };
        // SAFETY: the handle of the calling thread is always valid.
        unsafe { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_BELOW_NORMAL) };
    }
}

/// Ask for short turns, with which the calling thread runs as soon as it has something to do.
///
/// Between a key and its frame three threads wake each other. Where models are computed on all processors, each of them would wait for
/// a turn of some milliseconds to end. From Linux 6.12 on, a thread that asks for shorter turns than the others need not wait; it
/// gets no more of the processor in all. On Windows it runs before others of the same priority. Elsewhere nothing changes.
pub fn ask_for_short_turns() {
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
    #[cfg(windows)]
    {
        use windows_sys::Win32::System::Threading::{
            GetCurrentThread, SetThreadPriority, THREAD_PRIORITY_ABOVE_NORMAL,
        };
        // SAFETY: the handle of the calling thread is always valid.
        unsafe { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_ABOVE_NORMAL) };
    }
}
