//! Lists the embedded demo files.
//!
//! `assets/demo` may hold any files; each is embedded under its path inside that folder, except for the recorded runs, which are
//! for the documentation. The list is written to `demo_files.rs` in the output folder and included by `src/lib.rs`.

use std::{env, fmt::Write as _, fs, io, path::PathBuf};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../assets/demo");
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if root.is_dir() {
        for entry in fs::read_dir(&root)? {
            let path = entry?.path();
            if path != root.join("runs") {
                println!("cargo:rerun-if-changed={}", path.display());
                add(path, &mut files)?;
            }
        }
    } else {
        println!("cargo:rerun-if-changed={}", root.display());
    }
    files.sort();

    let mut list = String::from("&[\n");
    let mut hash = Fnv::new();
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        hash.eat(name.as_bytes());
        hash.eat(&fs::read(file)?);
        let path = file.to_string_lossy();
        writeln!(list, "    Embedded {{ path: {name:?}, bytes: include_bytes!({path:?}) }},")
            .map_err(io::Error::other)?;
    }
    list.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("demo_files.rs"), list)?;
    println!("cargo:rustc-env=SPECREEL_DEMO_HASH={:016x}", hash.0);
    Ok(())
}

/// Add a file, or all files of a directory. Hidden ones are skipped.
fn add(path: PathBuf, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.')) {
        return Ok(());
    }
    if !path.is_dir() {
        files.push(path);
        return Ok(());
    }
    fs::read_dir(path)?.try_for_each(|entry| add(entry?.path(), files))
}

/// FNV-1a over 64 bits: names a folder, protects nothing.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn eat(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
