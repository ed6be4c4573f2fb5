//! Pages are shared, so they do not contain the path of the home directory.

use std::path::{Component, Path};

/// A page with `~` for the path of the user's home directory.
pub(super) fn without_home(text: String) -> String {
    match etcetera::home_dir() {
        Ok(home) => tilde(text, &home),
        Err(_) => text,
    }
}

/// Text with `~` for this path, where it is a whole path or the beginning of one.
fn tilde(text: String, home: &Path) -> String {
    // Of `/` nothing is private.
    let named = home.components().filter(|part| matches!(part, Component::Normal(_))).count() > 0;
    let Some(home) = home.to_str().map(|home| home.trim_end_matches('/')).filter(|_| named) else {
        return text;
    };
    if !text.contains(home) {
        return text;
    }
    let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(home) {
        let (before, after) = (&rest[..at], &rest[at + home.len()..]);
        let begins = !before.ends_with(|c: char| part_of_name(c) || c == '/');
        // A full stop may end a sentence.
        let mut following = after.chars();
        let ends = match following.next() {
            Some('.') => !following.next().is_some_and(part_of_name),
            Some(c) => !part_of_name(c),
            None => true,
        };
        out.push_str(before);
        out.push_str(if begins && ends { "~" } else { home });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_directory_is_a_tilde() {
        let told = |text: &str, home: &str| tilde(text.to_owned(), Path::new(home));
        assert_eq!(told("on /home/ann/v.mp4, in /home/ann.", "/home/ann/"), "on ~/v.mp4, in ~.");
        assert_eq!(told("<td>/home/ann</td>", "/home/ann"), "<td>~</td>");
        for other in ["/home/anna/v.mp4", "/mnt/home/ann/v.mp4", "/home/ann.old/v.mp4", "a/home/ann"] {
            assert_eq!(told(other, "/home/ann"), other);
        }
        assert_eq!(told("/a", "/"), "/a");
    }
}
