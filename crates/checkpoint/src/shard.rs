//! One weight file of a checkpoint, read with positioned reads. It is not mapped: a mapped file that another program truncates
//! kills the process with SIGBUS, a read of it fails.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use safetensors::tensor::TensorInfo;
use twox_hash::XxHash3_64;

use super::header;
use specreel_os::file as os;
use specreel_tensor::CheckpointError;

/// Longest header that is read, in bytes: the limit of the safetensors crate.
const LONGEST_HEADER: u64 = 100_000_000;

/// An open weight file and its header.
pub(crate) struct Shard {
    pub path: PathBuf,
    file: File,
    pub len: u64,
    /// Where the tensors' bytes begin.
    data: u64,
    header: u64,
    pub tensors: HashMap<String, TensorInfo>,
    /// The system was asked to read the data up to here.
    asked: AtomicU64,
}

/// Places of a file that are sampled.
const SAMPLES: u64 = 64;
/// Bytes of a sample.
const SAMPLE: u64 = 4096;
/// Bytes that are read ahead beyond a tensor: most likely the next one.
const AHEAD: u64 = 64 << 20;
/// Most bytes that the system is asked for at once. Some kernels do nothing else on a processor until all of them are requested,
/// and what draws would wait for tens of milliseconds.
const PIECE: u64 = 1 << 20;

impl Shard {
    /// Open a file and read its header. Fails if it is missing, not a regular file, truncated, or its header is invalid.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let fail = |problem: &str| CheckpointError::file(path, problem);
        let io = |e: io::Error| fail(&e.to_string());
        // Asked of the path: opening a pipe would wait for its other end.
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(fail("not a regular file"));
        }
        let file = File::open(path).map_err(io)?;
        let len = file.metadata().map_err(io)?.len();
        os::expect_no_order(&file);
        let mut shard = Self {
            path: path.to_owned(),
            file,
            len,
            data: 0,
            header: 0,
            tensors: HashMap::new(),
            asked: AtomicU64::new(0),
        };
        let invalid = |problem: &str| fail(&format!("not a valid safetensors file: {problem}"));
        if len < 8 {
            return Err(invalid("it is shorter than 8 bytes"));
        }
        let mut length = [0; 8];
        shard.read(&mut length, 0)?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST_HEADER.min(len - 8) {
            return Err(invalid(&format!("the header claims {length} bytes, the file has {len}")));
        }
        let mut json = vec![0; length as usize];
        shard.read(&mut json, 8)?;
        let (tensors, data) = header::parse(&json).map_err(|problem| invalid(&problem))?;
        (shard.data, shard.tensors) = (8 + length, tensors);
        shard.header = XxHash3_64::oneshot(&json);
        match shard.data.checked_add(data as u64) {
            Some(expected) if expected == len => Ok(shard),
            Some(expected) if expected < len => {
                Err(invalid(&format!("{} bytes follow the last tensor", len - expected)))
            }
            _ => Err(invalid(&format!("it is truncated: {data} bytes of tensors in a file of {len} bytes"))),
        }
    }

    /// Fill `buffer` with a tensor's bytes from `offset` on; `offset` counts from the start of the tensors' data.
    /// [`CheckpointError::Changed`] if the file ends before, else the error of the read.
    pub(crate) fn read_data(&self, buffer: &mut [u8], offset: usize) -> Result<(), CheckpointError> {
        self.read(buffer, self.data + offset as u64)
    }

    /// Ask the system to read some of the tensors' data, and what follows it, ahead of its use.
    pub fn read_ahead(&self, start: usize, end: usize) {
        let (start, end) = (start as u64, (self.len - self.data).min(end as u64 + AHEAD));
        let asked = self.asked.load(Ordering::Relaxed);
        let mut at = if (start..=end).contains(&asked) { asked } else { start };
        while at < end {
            let bytes = PIECE.min(end - at);
            os::read_ahead(&self.file, self.data + at, bytes);
            at += bytes;
        }
        self.asked.store(at, Ordering::Relaxed);
    }

    /// Bytes that distinguish files cheaply: length, a hash of the header, and samples of the data.
    pub fn sample(&self) -> Result<Vec<u8>, CheckpointError> {
        let mut sample = [self.len.to_le_bytes(), self.header.to_le_bytes()].concat();
        let mut buffer = [0; SAMPLE as usize];
        let data = self.len - self.data;
        let last = data.saturating_sub(SAMPLE);
        for i in 0..SAMPLES {
            let part = &mut buffer[..SAMPLE.min(data) as usize];
            self.read(part, self.data + last / (SAMPLES - 1) * i)?;
            sample.extend_from_slice(part);
        }
        Ok(sample)
    }

    /// What the file system says about the file.
    pub fn metadata(&self) -> io::Result<std::fs::Metadata> {
        self.file.metadata()
    }

    fn read(&self, buffer: &mut [u8], at: u64) -> Result<(), CheckpointError> {
        os::read_exact_at(&self.file, buffer, at).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => CheckpointError::Changed { path: self.path.clone() },
            _ => CheckpointError::file(&self.path, &e.to_string()),
        })
    }

    /// The error for a tensor that the index places in this file, if it is not here.
    pub(crate) fn lacks(&self, name: &str) -> Option<CheckpointError> {
        let problem = || format!("the index places `{name}` in this file, but it is not here");
        (!self.tensors.contains_key(name)).then(|| CheckpointError::file(&self.path, &problem()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one tensor `a` of two f32 values.
    fn write(path: &Path) {
        let header = br#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header, &[7; 8]].concat();
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_file_that_shrinks_is_an_error_and_no_signal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        write(&path);
        let shard = Shard::open(&path).unwrap();
        let mut bytes = [0; 4];
        shard.read_data(&mut bytes, 4).unwrap();
        assert_eq!(bytes, [7; 4]);
        File::options().write(true).open(&path).unwrap().set_len(shard.len - 1).unwrap();
        shard.read_data(&mut bytes, 0).unwrap();
        let error = shard.read_data(&mut bytes, 4).unwrap_err();
        assert!(matches!(&error, CheckpointError::Changed { path: at } if *at == path), "{error}");
        assert!(error.to_string().ends_with("the file changed while it was read"), "{error}");
    }

    #[test]
    fn the_length_of_a_file_must_be_that_of_its_tensors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        write(&path);
        let whole = std::fs::read(&path).unwrap();
        for (bytes, problem) in [
            (&whole[..7], "shorter than 8 bytes"),
            (&whole[..20], "the header claims"),
            (&whole[..whole.len() - 1], "truncated"),
            (&[&whole[..], &[0; 3]].concat()[..], "3 bytes follow"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = Shard::open(&path).err().unwrap().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
