//! Memory of weights: values that are owned, or a part of a mapped file.
//!
//! A mapped file is read when it is used, shared between processes, and given back to the system under memory pressure. Files
//! that only this program writes are replaced, never changed. GGUF files are others': one that gets shorter while it is mapped reads as
//! zeros beyond its end (see [`specreel_os::map`]), and [`check_maps`], which follows every pass and every loading, is an error.

use std::{
    fs::File,
    io,
    ops::Deref,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytemuck::Pod;
use specreel_os::{map::Guard, memory::want_huge_pages};

/// The files that are mapped now.
static MAPS: Mutex<Vec<Weak<FileMap>>> = Mutex::new(Vec::new());
/// Number of mapped files.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Bytes of a cache line: vectors that begin with one are read in one access.
const LINE: usize = 64;
/// In the text of [`check_maps`]' error.
pub(crate) const SHORTER: &str = "the file got shorter while it was used";

/// Check that no mapped file got shorter: if one did, later results are wrong.
pub fn check_maps() -> io::Result<()> {
    // Models in memory of their own pay nothing.
    if COUNT.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    let maps = MAPS.lock().unwrap_or_else(PoisonError::into_inner);
    match maps.iter().filter_map(Weak::upgrade).find(|map| map.is_shorter()) {
        Some(map) => Err(io::Error::other(format!("{}: {SHORTER}", map.path.display()))),
        None => Ok(()),
    }
}

/// A file, mapped for reading.
pub struct FileMap {
    // Dropped before the map.
    guard: Guard,
    map: memmap2::Mmap,
    file: File,
    path: PathBuf,
}

impl FileMap {
    /// Map a regular file. Fails if it cannot be opened or mapped, or is not a regular file.
    pub fn open(path: &Path) -> io::Result<Arc<Self>> {
        // Asked of the path: opening a pipe would wait for its other end.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        // SAFETY: see the module docs.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        let guard = Guard::new(&map)?;
        let map = Arc::new(Self { guard, map, file, path: path.to_owned() });
        let mut maps = MAPS.lock().unwrap_or_else(PoisonError::into_inner);
        maps.retain(|map| map.strong_count() > 0);
        maps.push(Arc::downgrade(&map));
        COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(map)
    }

    /// True if the file is not as long any more as when it was mapped. The rest of its last page reads as zeros without a fault.
    fn is_shorter(&self) -> bool {
        self.guard.has_faulted() || self.file.metadata().is_ok_and(|now| now.len() < self.map.len() as u64)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Ask the system to read the file ahead of its use.
    pub fn read_ahead(&self) {
        self.read_ahead_to(self.map.len());
    }

    /// Ask the system to read the first `len` bytes ahead of their use.
    pub fn read_ahead_to(&self, len: usize) {
        specreel_os::map::read_ahead(&self.map, len);
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Values that are owned, or a part of a mapped file. Clones share the values.
#[derive(Clone)]
pub enum SharedValues<T: Pod> {
    /// The values from `at` on.
    Owned { values: Arc<Vec<T>>, at: usize },
    /// `len` values from byte `at` of a file on: in bounds and aligned, see [`SharedValues::mapped`].
    Mapped {
        map: Arc<FileMap>,
        /// The first byte.
        at: usize,
        len: usize,
        kind: std::marker::PhantomData<T>,
    },
}

impl<T: Pod> SharedValues<T> {
    /// `len` values from byte `at` of a file on; `None` if they are not in the file, or not aligned for their type.
    pub fn mapped(map: &Arc<FileMap>, at: usize, len: usize) -> Option<Self> {
        let end = len.checked_mul(size_of::<T>())?.checked_add(at)?;
        let bytes = map.bytes().get(at..end)?;
        bytes.as_ptr().cast::<T>().is_aligned().then(|| Self::Mapped {
            map: Arc::clone(map),
            at,
            len,
            kind: std::marker::PhantomData,
        })
    }

    /// So many zeros, from the beginning of a cache line on. The system provides their memory when it is first written, by the thread
    /// that writes it, in huge pages where it can: a fault for each small page of a model takes seconds, and holds up the threads that
    /// draw and answer.
    pub(crate) fn zeros(len: usize) -> Self {
        let mut values = vec![T::zeroed(); len + LINE / size_of::<T>()];
        want_huge_pages(&values);
        let at = values.as_ptr().align_offset(LINE).min(LINE / size_of::<T>());
        values.truncate(at + len);
        Self::Owned { values: Arc::new(values), at }
    }

    /// The owned values, to be filled. Panics if they are mapped, or shared with a clone.
    pub(crate) fn owned(&mut self) -> &mut [T] {
        match self {
            Self::Owned { values, at } => match Arc::get_mut(values) {
                Some(values) => &mut values[*at..],
                None => unreachable!("shared values are not changed"),
            },
            Self::Mapped { .. } => unreachable!("mapped values are not changed"),
        }
    }

    /// The values as bytes, in the order of this processor.
    pub fn as_bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    /// True if the values are a part of a mapped file.
    pub fn is_mapped(&self) -> bool {
        matches!(self, Self::Mapped { .. })
    }
}

impl<T: Pod> Deref for SharedValues<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::Owned { values, at } => &values[*at..],
            // SAFETY: checked when it was made; any bytes are values.
            Self::Mapped { map, at, len, .. } => unsafe {
                std::slice::from_raw_parts(map.map.as_ptr().add(*at).cast(), *len)
            },
        }
    }
}

impl<T: Pod> From<Vec<T>> for SharedValues<T> {
    fn from(values: Vec<T>) -> Self {
        Self::Owned { values: Arc::new(values), at: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_file_are_checked() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let values = [1.5f32, -2.0, 3.25];
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        std::fs::write(file.path(), bytes).unwrap();
        let map = FileMap::open(file.path()).unwrap();
        assert_eq!(SharedValues::<f32>::mapped(&map, 4, 2).unwrap()[..], values[1..]);
        assert!(
            SharedValues::<f32>::mapped(&map, 4, 3).is_none()
                && SharedValues::<f32>::mapped(&map, 2, 1).is_none()
        );
        assert!(SharedValues::<f32>::mapped(&map, usize::MAX, 1).is_none());
        assert!(SharedValues::<f32>::mapped(&map, 4, usize::MAX / 2).is_none());
        assert_eq!(SharedValues::<u16>::mapped(&map, 2, 1).unwrap().len(), 1);
        assert!(FileMap::open(file.path().parent().unwrap()).is_err());
    }

    #[test]
    fn zeros_begin_with_a_cache_line() {
        for len in [0, 1, 1000] {
            let mut bytes = SharedValues::<u8>::zeros(len);
            assert_eq!((bytes.len(), bytes.as_ptr().addr() % LINE), (len, 0));
            bytes.owned().fill(1);
            let copy = bytes.clone();
            assert!(copy.iter().all(|byte| *byte == 1) && !copy.is_mapped());
            assert_eq!(SharedValues::<f32>::zeros(len).as_bytes().len(), 4 * len);
        }
    }

    /// In a process of its own: other tests would also find the file.
    #[cfg(unix)]
    #[test]
    fn a_file_that_gets_shorter_is_an_error() {
        const CHILD: &str = "SPECREEL_TEST_CHILD";
        if std::env::var_os(CHILD).is_none() {
            let name = concat!(module_path!(), "::a_file_that_gets_shorter_is_an_error");
            let (_, name) = name.split_once("::").unwrap();
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let child = child.args(["--exact", name]).env(CHILD, "1").output().unwrap();
            assert!(child.status.success(), "{child:?}");
            return;
        }
        // Whole pages of every size that there is.
        let page = 1 << 16;
        for left in [page, 3 * page - 1] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), vec![7u8; 3 * page]).unwrap();
            let map = FileMap::open(file.path()).unwrap();
            assert!(map.bytes().iter().all(|byte| *byte == 7) && check_maps().is_ok());
            file.as_file().set_len(left as u64).unwrap();
            assert_eq!(map.bytes().iter().filter(|byte| **byte == 7).count(), left);
            let error = check_maps().unwrap_err().to_string();
            assert!(error.ends_with(SHORTER), "{error}");
            // As long as before, but zeros were read meanwhile.
            file.as_file().set_len(3 * page as u64).unwrap();
            assert_eq!(check_maps().is_err(), left == page);
            drop(map);
            check_maps().unwrap();
        }
    }

    #[cfg(windows)]
    #[test]
    fn a_file_that_is_mapped_does_not_get_shorter() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 10_000]).unwrap();
        let _map = FileMap::open(file.path()).unwrap();
        assert!(file.as_file().set_len(1).is_err());
    }
}
