//! Paths as bytes, for hashes, databases and lists.

use std::{
    borrow::Cow,
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// The bytes of a name: as they are on Unix; UTF-8 on Windows, in which a name that is not Unicode has bytes of its own (WTF-8).
pub fn bytes(name: &(impl AsRef<OsStr> + ?Sized)) -> &[u8] {
    name.as_ref().as_encoded_bytes()
}

/// The path with these bytes. On Windows what is not UTF-8 is replaced, since no path can have it.
pub fn path(bytes: &[u8]) -> PathBuf {
    #[cfg(unix)]
    return PathBuf::from(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes));
    #[cfg(not(unix))]
    return PathBuf::from(String::from_utf8_lossy(bytes).into_owned());
}

/// The bytes of a relative path with slashes between its parts: the same on every system.
pub fn portable_bytes(path: &Path) -> Cow<'_, [u8]> {
    let bytes = bytes(path);
    match std::path::MAIN_SEPARATOR {
        '/' => Cow::Borrowed(bytes),
        separator => {
            Cow::Owned(bytes.iter().map(|b| if *b == separator as u8 { b'/' } else { *b }).collect())
        }
    }
}

/// A relative path with slashes between its parts, as it is written to files that other systems may read.
pub fn portable(path: &Path) -> Cow<'_, str> {
    match (std::path::MAIN_SEPARATOR, path.to_string_lossy()) {
        ('/', text) => text,
        (separator, text) => Cow::Owned(text.replace(separator, "/")),
    }
}

/// The path of a `file:` URL: what follows `file://`, decoded. On Windows `/C:/a` is `C:/a`, and `host/a` is on that machine.
pub fn path_of_url(decoded: &str) -> PathBuf {
    if !cfg!(windows) {
        return decoded.into();
    }
    match decoded.strip_prefix('/') {
        Some(rest) if rest.as_bytes().get(1) == Some(&b':') => rest.into(),
        Some(_) => decoded.into(),
        None => format!("//{decoded}").into(),
    }
}

/// A path as terminals paste it, without what keeps a shell from splitting it. A backslash of Windows is a part of the path.
pub fn unescaped(pasted: &str) -> String {
    if cfg!(windows) {
        return pasted.to_owned();
    }
    pasted.replace("\\ ", " ").replace("\\(", "(").replace("\\)", ")")
}

/// Where the last part of a typed path begins, in bytes.
pub fn last_part(typed: &str) -> usize {
    typed.rfind(std::path::is_separator).map_or(0, |at| at + 1)
}

/// The bytes of an absolute path in a `file:` URI, before they are percent-encoded: `/C:/a` for `C:\a`.
pub fn uri_path(path: &Path) -> Vec<u8> {
    let bytes = portable_bytes(path).into_owned();
    match bytes.first() {
        Some(b'/') => bytes,
        _ => [b"/".as_slice(), &bytes].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_its_bytes() {
        let typed = Path::new("a").join("é b.mp4");
        assert_eq!(path(bytes(&typed)), typed);
        assert_eq!(portable_bytes(&typed), "a/é b.mp4".as_bytes());
        assert_eq!(portable(&typed), "a/é b.mp4");
        assert_eq!(["", "a", "a/", "a/b"].map(last_part), [0, 0, 2, 2]);
    }

    #[cfg(windows)]
    #[test]
    fn windows_separates_by_backslashes_too() {
        assert_eq!(["a\\b", "C:\\a/b"].map(last_part), [2, 5]);
        assert_eq!(uri_path(Path::new("C:\\a b")), b"/C:/a b");
        assert_eq!(path_of_url("/C:/a b"), Path::new("C:\\a b"));
        assert_eq!(path_of_url("host/share/a"), Path::new("\\\\host\\share\\a"));
        assert_eq!(unescaped("C:\\a (1).mp4"), "C:\\a (1).mp4");
    }
}
