//! The terminal's window: its title, its progress bar, and desktop notifications.
//!
//! A sequence is sent only to terminals that are known to support it, by their name (XTVERSION): others may show progress as a
//! notification.

use std::time::{Duration, Instant};

use crate::tui::question;

pub use specreel_client::Notify;

/// Terminals that show progress (OSC 9;4), and since which version. kitty ignores it.
const PROGRESS: [(&str, [u32; 3]); 5] = [
    ("ghostty", [1, 2, 0]),
    ("iterm2", [3, 6, 6]),
    ("konsole", [26, 4, 0]),
    ("mintty", [0, 0, 0]),
    ("wezterm", [20250209, 0, 0]),
];

/// Ghostty removes progress that is not repeated within 15 seconds.
const REPEAT: Duration = Duration::from_secs(5);

/// How far the work is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Progress {
    #[default]
    None,
    /// Of unknown length.
    Busy,
    Percent(u8),
    /// It failed, and the user has not seen it.
    Failed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outside {
    pub title: String,
    pub progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    /// iTerm2's sequence.
    Osc9,
    /// kitty's.
    Osc99,
    /// urxvt's.
    Osc777,
    Bell,
    None,
}

#[derive(Debug)]
pub(crate) struct Window {
    pub has_title: bool,
    pub has_progress: bool,
    notice: Notice,
    said: Outside,
    said_at: Option<Instant>,
}

impl Window {
    /// For a terminal of this name. `inside` a multiplexer the name is the multiplexer's, which drops unknown sequences.
    pub fn new(name: &str, inside: bool, notify: Notify) -> Self {
        let name = name.to_ascii_lowercase();
        let is = |names: &[&str]| !inside && names.iter().any(|n| name.starts_with(n));
        let notice = match notify {
            Notify::Off => Notice::None,
            Notify::Auto if is(&["kitty"]) => Notice::Osc99,
            Notify::Auto if is(&["ghostty", "iterm2", "wezterm"]) => Notice::Osc9,
            Notify::Auto if is(&["foot", "konsole"]) => Notice::Osc777,
            Notify::Auto | Notify::Bell => Notice::Bell,
        };
        let windows_terminal = std::env::var_os("WT_SESSION").is_some();
        let shows = |(of, since): &(&str, [u32; 3])| is(&[of]) && version(&name[of.len()..]) >= *since;
        Self {
            has_title: !question::is_plain(),
            has_progress: PROGRESS.iter().any(shows) || (windows_terminal && !inside),
            notice,
            said: Outside::default(),
            said_at: None,
        }
    }

    /// The sequences for the changed values.
    pub fn say(&mut self, outside: Outside, now: Instant) -> String {
        let mut words = String::new();
        if self.has_title && outside.title != self.said.title {
            words += &format!("\x1b]2;{}\x1b\\", outside.title);
        }
        let is_old = self.said_at.is_none_or(|at| now.saturating_duration_since(at) > REPEAT);
        let is_new = outside.progress != self.said.progress;
        if self.has_progress && (is_new || (is_old && outside.progress != Progress::None)) {
            self.said_at = Some(now);
            words += &match outside.progress {
                Progress::None => "\x1b]9;4;0\x1b\\".to_owned(),
                Progress::Busy => "\x1b]9;4;3\x1b\\".to_owned(),
                Progress::Percent(share) => format!("\x1b]9;4;1;{share}\x1b\\"),
                Progress::Failed => "\x1b]9;4;2;100\x1b\\".to_owned(),
            };
        }
        self.said = outside;
        words
    }

    /// Another program may have said something else.
    pub fn forget(&mut self) {
        self.said = Outside::default();
    }

    /// The sequence that notifies the user.
    pub fn notification(&self, words: &str) -> String {
        match self.notice {
            Notice::Osc9 => format!("\x1b]9;specreel: {words}\x1b\\"),
            Notice::Osc99 => format!("\x1b]99;;specreel: {words}\x1b\\"),
            Notice::Osc777 => format!("\x1b]777;notify;specreel;{words}\x1b\\"),
            Notice::Bell => "\x07".to_owned(),
            Notice::None => String::new(),
        }
    }
}

/// The first three numbers in a text; those that are missing are 0.
fn version(text: &str) -> [u32; 3] {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_terminal_gets_what_it_understands() {
        for (name, progress, notice) in [
            ("ghostty 1.2.0", true, "\x1b]9;specreel: done\x1b\\"),
            ("ghostty 1.1.3", false, "\x1b]9;specreel: done\x1b\\"),
            ("iTerm2 3.6.6", true, "\x1b]9;specreel: done\x1b\\"),
            ("iTerm2 3.5.14", false, "\x1b]9;specreel: done\x1b\\"),
            ("WezTerm 20250209-182623-44866cc1", true, "\x1b]9;specreel: done\x1b\\"),
            ("WezTerm 20240203-110809-5046fc22", false, "\x1b]9;specreel: done\x1b\\"),
            ("Konsole 26.04.1", true, "\x1b]777;notify;specreel;done\x1b\\"),
            ("Konsole 25.12.3", false, "\x1b]777;notify;specreel;done\x1b\\"),
            ("kitty(0.46.2)", false, "\x1b]99;;specreel: done\x1b\\"),
            ("foot(1.16.2)", false, "\x1b]777;notify;specreel;done\x1b\\"),
            ("XTerm(390)", false, "\x07"),
            ("", false, "\x07"),
        ] {
            let window = |inside, notify| Window::new(name, inside, notify);
            let auto = window(false, Notify::Auto);
            assert_eq!((auto.has_progress, auto.notification("done").as_str()), (progress, notice), "{name}");
            let inside = window(true, Notify::Auto);
            assert_eq!((inside.has_progress, inside.notification("done").as_str()), (false, "\x07"));
            assert_eq!(window(false, Notify::Bell).notification("done"), "\x07");
            assert_eq!(window(false, Notify::Off).notification("done"), "");
        }
    }

    #[test]
    fn only_changes_are_said_and_progress_is_repeated() {
        let mut window = Window { has_title: true, ..Window::new("ghostty 1.3.1", false, Notify::Auto) };
        let now = Instant::now();
        let outside = |title: &str, progress| Outside { title: title.into(), progress };
        let half = || outside("a", Progress::Percent(50));
        assert_eq!(window.say(half(), now), "\x1b]2;a\x1b\\\x1b]9;4;1;50\x1b\\");
        assert_eq!(window.say(half(), now + REPEAT), "");
        assert_eq!(window.say(half(), now + 2 * REPEAT), "\x1b]9;4;1;50\x1b\\");
        assert_eq!(window.say(outside("a", Progress::None), now + 2 * REPEAT), "\x1b]9;4;0\x1b\\");
        assert_eq!(window.say(outside("b", Progress::None), now + 9 * REPEAT), "\x1b]2;b\x1b\\");
        window.forget();
        assert_eq!(window.say(outside("b", Progress::Failed), now), "\x1b]2;b\x1b\\\x1b]9;4;2;100\x1b\\");
    }
}
