//! A read beyond the end of a mapped file that got shorter is a signal (SIGBUS), which ends the program. Here it becomes a read
//! of zeros: the handler puts empty memory in the place of the missing pages and notes that. All other such signals go to the
//! handler that was there before.
//!
//! The handler does only what a signal handler may: it reads atomics and makes system calls. The signal comes on the thread
//! that reads, at the instruction that reads, which is repeated afterwards.

use std::{
    io,
    mem::MaybeUninit,
    ptr::null_mut,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::SeqCst},
    },
};

/// Files that may be mapped at a time.
const MOST: usize = 1024;

struct Range {
    /// Its first byte; 0 if the place is free, 1 while it is being taken.
    start: AtomicUsize,
    /// The end of its last page.
    end: AtomicUsize,
    faulted: AtomicBool,
}

static RANGES: [Range; MOST] = [const {
    Range { start: AtomicUsize::new(0), end: AtomicUsize::new(0), faulted: AtomicBool::new(false) }
}; MOST];

/// What handled the signal before.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// Guards a mapped range until it is dropped, which must be before the range is unmapped.
pub(super) struct Guard(&'static Range);

impl Guard {
    /// Fails if too many files are mapped, or the signal cannot be handled.
    pub fn new(map: &memmap2::Mmap) -> io::Result<Self> {
        install()?;
        let take = |range: &&Range| range.start.compare_exchange(0, 1, SeqCst, SeqCst).is_ok();
        let range = RANGES.iter().find(take).ok_or_else(|| io::Error::other("too many mapped files"))?;
        let start = map.as_ptr() as usize;
        range.faulted.store(false, SeqCst);
        range.end.store((start + map.len()).next_multiple_of(PAGE.load(SeqCst)), SeqCst);
        range.start.store(start, SeqCst);
        Ok(Self(range))
    }

    /// True if a read found no file.
    pub(crate) fn has_faulted(&self) -> bool {
        self.0.faulted.load(SeqCst)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(0, SeqCst);
    }
}

fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let outcome = INSTALLED.get_or_init(|| {
        PAGE.store(rustix::param::page_size(), SeqCst);
        let failed = |_| io::Error::last_os_error().raw_os_error().unwrap_or_default();
        let call = |result: i32| if result == 0 { Ok(()) } else { Err(result) };
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the pointer is to memory for one action, which the call fills.
        call(unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), before.as_mut_ptr()) })
            .map_err(failed)?;
        // SAFETY: the call succeeded.
        BEFORE.store(Box::into_raw(Box::new(unsafe { before.assume_init() })), SeqCst);
        // SAFETY: all zeros are an action.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both calls get a valid action, whose handler has the type that its flags say.
        let installed = unsafe {
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(libc::SIGBUS, &raw const action, null_mut())
        };
        call(installed).map_err(failed)
    });
    outcome.map_err(io::Error::from_raw_os_error)
}

fn range_of(address: usize) -> Option<(&'static Range, usize)> {
    RANGES.iter().find_map(|range| {
        let (start, end) = (range.start.load(SeqCst), range.end.load(SeqCst));
        // The place was not given to another range between the two reads.
        let is_one = start > 1 && range.start.load(SeqCst) == start;
        (is_one && (start..end).contains(&address)).then_some((range, end))
    })
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system passes a valid pointer to a handler with `SA_SIGINFO`; a fault has an address.
    let (sent, address) = unsafe { ((*info).si_code <= 0, (*info).si_addr() as usize) };
    if !sent && let Some((range, end)) = range_of(address) {
        let page = address & !(PAGE.load(SeqCst) - 1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        range.faulted.store(true, SeqCst);
        // SAFETY: the pages are a part of a mapping for reading that is in use, and stay one: all after the end of its file.
        let zeros =
            unsafe { libc::mmap(page as *mut libc::c_void, end - page, libc::PROT_READ, flags, -1, 0) };
        if zeros != libc::MAP_FAILED {
            return;
        }
    }
    // SAFETY: the action was stored before this handler was installed, and is never freed.
    unsafe {
        libc::sigaction(signal, BEFORE.load(SeqCst), null_mut());
        // A fault happens again; a signal that was sent does not.
        if sent {
            libc::raise(signal);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::{
        os::unix::process::ExitStatusExt,
        process::{Command, Output},
    };

    /// Set in a process that runs one test.
    const CHILD: &str = "SPECREEL_TEST_CHILD";

    /// Run the test of this path in a process of its own; `None` if this is the process.
    pub(crate) fn in_child(test: &str) -> Option<Output> {
        if std::env::var_os(CHILD).is_some() {
            return None;
        }
        let (_, name) = test.split_once("::").unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        Some(child.args(["--exact", name]).env(CHILD, "1").output().unwrap())
    }

    #[test]
    fn other_faults_end_the_program_as_before() {
        let name = concat!(module_path!(), "::other_faults_end_the_program_as_before");
        if let Some(child) = in_child(name) {
            assert_eq!(child.status.signal(), Some(libc::SIGBUS), "{child:?}");
            return;
        }
        super::install().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1).unwrap();
        // SAFETY: that the file gets shorter is the test.
        let map = unsafe { memmap2::Mmap::map(file.as_file()).unwrap() };
        file.as_file().set_len(0).unwrap();
        println!("{}", std::hint::black_box(map[0]));
    }
}
