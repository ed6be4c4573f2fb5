//! Where in a TOML text something stands, so that a mistake is told with its line.

/// The number of the line, from 1, at which a key of a section (or of none) is written; the section's own line where no key is
/// asked for.
pub(crate) fn line_of(text: &str, section: Option<&str>, key: Option<&str>) -> Option<usize> {
    let mut here = None;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.split(']').next()) {
            here = Some(name.trim());
            // `[accent]` is the key `accent` of no section.
            if (key.is_none() && section == here) || (section.is_none() && key == here) {
                return Some(i + 1);
            }
            continue;
        }
        let name = line.split(['=', '.']).next().unwrap_or_default().trim().trim_matches(['"', '\'']);
        let whole = key.is_none() && here.is_none() && section == Some(name);
        if whole || (here == section && key == Some(name)) {
            return Some(i + 1);
        }
    }
    None
}

/// `file:line`, or the file alone where the line is not known.
pub(crate) fn place(file: &str, line: Option<usize>) -> String {
    line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_their_section() {
        let text = "a = 1\n\n[one] # first\nb = 2\n \"c\" = 3\n[two]\nb = 4\n";
        assert_eq!(line_of(text, None, Some("a")), Some(1));
        assert_eq!(line_of(text, Some("one"), Some("b")), Some(4));
        assert_eq!(line_of(text, Some("one"), Some("c")), Some(5));
        assert_eq!(line_of(text, Some("two"), Some("b")), Some(7));
        assert_eq!(line_of(text, Some("two"), None), Some(6));
        assert_eq!(line_of(text, Some("a"), None), Some(1));
        assert_eq!(line_of(text, Some("two"), Some("c")), None);
        assert_eq!((place("k.toml", Some(7)), place("k.toml", None)), ("k.toml:7".into(), "k.toml".into()));
    }
}
