//! Mapped files that are read although they got shorter, or their drive is gone.
//!
//! A read of a page that is missing is a signal (SIGBUS), on Windows an exception, which ends the program. Here it becomes a read of
//! zeros: the handler puts empty memory in the place of the missing pages and notes that. All others go to the handler that was there
//! before.
//!
//! The handler does only what it may: it reads atomics and makes system calls. It runs on the thread that reads, at the
//! instruction that reads, which is repeated afterwards.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use memmap2::Mmap;

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

/// Bytes of a page.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// Guards a mapped range until it is dropped, which must be before the range is unmapped.
pub struct Guard(&'static Range);

impl Guard {
    /// Fails if too many files are mapped, or faults cannot be handled.
    pub fn new(map: &Mmap) -> io::Result<Self> {
        system::install()?;
        let take = |range: &&Range| range.start.compare_exchange(0, 1, SeqCst, SeqCst).is_ok();
        let range = RANGES.iter().find(take).ok_or_else(|| io::Error::other("too many mapped files"))?;
        let start = map.as_ptr() as usize;
        range.faulted.store(false, SeqCst);
        range.end.store((start + map.len()).next_multiple_of(PAGE.load(SeqCst)), SeqCst);
        range.start.store(start, SeqCst);
        Ok(Self(range))
    }

    /// True if a read found no file.
    pub fn has_faulted(&self) -> bool {
        self.0.faulted.load(SeqCst)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(0, SeqCst);
    }
}

fn range_of(address: usize) -> Option<(&'static Range, usize)> {
    RANGES.iter().find_map(|range| {
        let (start, end) = (range.start.load(SeqCst), range.end.load(SeqCst));
        // The place was not given to another range between the two reads.
        let is_one = start > 1 && range.start.load(SeqCst) == start;
        (is_one && (start..end).contains(&address)).then_some((range, end))
    })
}

/// Ask the system to read the first `len` bytes of a map ahead of their use. Does nothing on Windows, which reads ahead by itself.
pub fn read_ahead(map: &Mmap, len: usize) {
    #[cfg(unix)]
    {
        // In pieces: some kernels do nothing else on a processor until all of a range is requested.
        const PIECE: usize = 1 << 20;
        let len = len.min(map.len());
        for at in (0..len).step_by(PIECE) {
            let _ = map.advise_range(memmap2::Advice::WillNeed, at, PIECE.min(len - at));
        }
    }
    #[cfg(windows)]
    let _ = (map, len);
}

#[cfg(unix)]
mod system {
    use std::{
        io,
        mem::MaybeUninit,
        ptr::null_mut,
        sync::{
            OnceLock,
            atomic::{AtomicPtr, Ordering::SeqCst},
        },
    };

    use super::{PAGE, range_of};

    /// What handled the signal before.
    static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());

    pub(super) fn install() -> io::Result<()> {
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
}

/// A file on a disk of this machine cannot get shorter while it is mapped (`ERROR_USER_MAPPED_FILE`). One on a share of another machine
/// can, and a drive can be pulled out.
#[cfg(windows)]
mod system {
    use std::{
        io,
        sync::{
            OnceLock,
            atomic::{AtomicBool, Ordering::SeqCst},
        },
    };

    use windows_sys::Win32::{
        Foundation::{EXCEPTION_ACCESS_VIOLATION, EXCEPTION_IN_PAGE_ERROR},
        System::{
            Diagnostics::Debug::{
                AddVectoredExceptionHandler, EXCEPTION_CONTINUE_EXECUTION, EXCEPTION_CONTINUE_SEARCH,
                EXCEPTION_POINTERS,
            },
            Memory::{
                MEM_COMMIT, MEM_RESERVE, MEMORY_MAPPED_VIEW_ADDRESS, PAGE_READONLY, UnmapViewOfFile,
                VirtualAlloc,
            },
            SystemInformation::{GetSystemInfo, SYSTEM_INFO},
        },
    };

    use super::{PAGE, range_of};

    /// Held by the thread that puts zeros in the place of a file. Meanwhile reads of other threads find no memory at all.
    static REPLACING: AtomicBool = AtomicBool::new(false);

    pub(super) fn install() -> io::Result<()> {
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        let installed = INSTALLED.get_or_init(|| {
            let mut about = SYSTEM_INFO::default();
            // SAFETY: the pointer is to memory for the structure that the call fills.
            unsafe { GetSystemInfo(&raw mut about) };
            PAGE.store(about.dwPageSize as usize, SeqCst);
            // SAFETY: the handler has the type that the call asks for, and stays for the life of the process.
            !unsafe { AddVectoredExceptionHandler(1, Some(on_fault)) }.is_null()
        });
        if *installed { Ok(()) } else { Err(io::Error::other("exceptions cannot be handled")) }
    }

    unsafe extern "system" fn on_fault(info: *mut EXCEPTION_POINTERS) -> i32 {
        // SAFETY: the system passes valid pointers.
        let record = unsafe { &*(*info).ExceptionRecord };
        let is_missing = record.ExceptionCode == EXCEPTION_IN_PAGE_ERROR;
        if !(is_missing || record.ExceptionCode == EXCEPTION_ACCESS_VIOLATION) || record.NumberParameters < 2
        {
            return EXCEPTION_CONTINUE_SEARCH;
        }
        let Some((range, end)) = range_of(record.ExceptionInformation[1]) else {
            return EXCEPTION_CONTINUE_SEARCH;
        };
        if !is_missing && !range.faulted.load(SeqCst) {
            return EXCEPTION_CONTINUE_SEARCH;
        }
        while REPLACING.swap(true, SeqCst) {
            std::hint::spin_loop();
        }
        let mut is_there = true;
        if !range.faulted.swap(true, SeqCst) {
            let start = range.start.load(SeqCst) as *mut core::ffi::c_void;
            // SAFETY: the view is in use for reading alone, and stays readable: all zeros from now on.
            is_there = unsafe {
                UnmapViewOfFile(MEMORY_MAPPED_VIEW_ADDRESS { Value: start });
                let zeros =
                    VirtualAlloc(start, end - start as usize, MEM_RESERVE | MEM_COMMIT, PAGE_READONLY);
                zeros == start
            };
        }
        REPLACING.store(false, SeqCst);
        if is_there { EXCEPTION_CONTINUE_EXECUTION } else { EXCEPTION_CONTINUE_SEARCH }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn other_faults_end_the_program_as_before() {
        use std::os::unix::process::ExitStatusExt;

        const CHILD: &str = "SPECREEL_TEST_CHILD";
        if std::env::var_os(CHILD).is_none() {
            let name = concat!(module_path!(), "::other_faults_end_the_program_as_before");
            let (_, name) = name.split_once("::").unwrap();
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let child = child.args(["--exact", name]).env(CHILD, "1").output().unwrap();
            assert_eq!(child.status.signal(), Some(libc::SIGBUS), "{child:?}");
            return;
        }
        system::install().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1).unwrap();
        // SAFETY: that the file gets shorter is the test.
        let map = unsafe { Mmap::map(file.as_file()).unwrap() };
        file.as_file().set_len(0).unwrap();
        println!("{}", std::hint::black_box(map[0]));
    }

    /// A drive cannot be pulled out here, so the exception is raised.
    #[cfg(windows)]
    #[test]
    fn a_page_that_is_missing_reads_as_zeros() {
        use windows_sys::Win32::{
            Foundation::EXCEPTION_IN_PAGE_ERROR, System::Diagnostics::Debug::RaiseException,
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![7; 10_000]).unwrap();
        // SAFETY: nobody else knows the file.
        let map = unsafe { Mmap::map(file.as_file()).unwrap() };
        let guard = Guard::new(&map).unwrap();
        assert!(map.iter().all(|byte| *byte == 7) && !guard.has_faulted());
        let facts = [0, &raw const map[5000] as usize, 0];
        // SAFETY: the handler takes it as a read of the map.
        unsafe { RaiseException(EXCEPTION_IN_PAGE_ERROR.cast_unsigned(), 0, 3, facts.as_ptr()) };
        assert!(map.iter().all(|byte| *byte == 0) && guard.has_faulted());
    }
}
