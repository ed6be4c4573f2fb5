//! The one legend of verdicts: which look each verdict has, on terminals, in themes and on pages.
//!
//! Verdicts share seven roles. Roles differ in their attributes, so that they are distinct without color:
//!
//! | role | verdicts | color | without color |
//! |---|---|---|---|
//! | strict | exact, sampled | none | as is |
//! | plain | plain | none | dim |
//! | corrected | corrected | cyan | bold |
//! | bonus | bonus | green | bold, italic |
//! | forced | forced | blue | italic |
//! | loosened | loosened, entropy, window, lenient, divergence, chance | yellow | underlined |
//! | shifted | shifted | magenta | italic, underlined |

use specreel_record::Verdict;

/// How a verdict looks; also the keys of themes and the classes of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A draft that equals the target's own token.
    Strict,
    Plain,
    /// The target's own token after a reject.
    Corrected,
    /// The target's own token after a full accept.
    Bonus,
    /// The only token that the grammar of the answer allows.
    Forced,
    /// A draft that the target would not have written.
    Loosened,
    /// A draft that passed because the target's token appears elsewhere in the draft.
    Shifted,
}

/// A role's look: text attributes, and colors for terminals of 16 colors and for light and dark pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub role: Role,
    /// Its name: key of a theme, class of a page.
    pub name: &'static str,
    /// SGR parameters without color (`1` bold, `2` dim, `3` italic, `4` underlined), separated by `;`.
    pub attributes: &'static str,
    /// SGR parameter of the color, one of the 16 that every terminal has; none is the text's own.
    pub ansi: Option<u8>,
    /// The color on a light page, `#rrggbb`.
    pub light: &'static str,
    /// The color on a dark page, `#rrggbb`.
    pub dark: &'static str,
    /// The look in words, for terminals without color.
    pub words: &'static str,
}

/// Every role's look, in the order of [`Role`].
pub const LOOKS: [Look; 7] = [
    Look {
        role: Role::Strict,
        name: "strict",
        attributes: "",
        ansi: None,
        light: "#1c2026",
        dark: "#e2e5ea",
        words: "as is",
    },
    Look {
        role: Role::Plain,
        name: "plain",
        attributes: "2",
        ansi: None,
        light: "#5b6472",
        dark: "#939aa8",
        words: "dim",
    },
    Look {
        role: Role::Corrected,
        name: "corrected",
        attributes: "1",
        ansi: Some(36),
        light: "#0a6d79",
        dark: "#6fd0d8",
        words: "bold",
    },
    Look {
        role: Role::Bonus,
        name: "bonus",
        attributes: "1;3",
        ansi: Some(32),
        light: "#1e7a34",
        dark: "#9ad08a",
        words: "bold italic",
    },
    Look {
        role: Role::Forced,
        name: "forced",
        attributes: "3",
        ansi: Some(34),
        light: "#2f5fb3",
        dark: "#8fb3f0",
        words: "italic",
    },
    Look {
        role: Role::Loosened,
        name: "loosened",
        attributes: "4",
        ansi: Some(33),
        light: "#8a5a00",
        dark: "#e6b673",
        words: "underlined",
    },
    Look {
        role: Role::Shifted,
        name: "shifted",
        attributes: "3;4",
        ansi: Some(35),
        light: "#7a3fb0",
        dark: "#c59bf0",
        words: "italic underlined",
    },
];

impl Role {
    pub fn of(verdict: Verdict) -> Role {
        match verdict {
            Verdict::Exact | Verdict::Sampled => Role::Strict,
            Verdict::Plain => Role::Plain,
            Verdict::Corrected => Role::Corrected,
            Verdict::Bonus => Role::Bonus,
            Verdict::Forced => Role::Forced,
            Verdict::Shifted => Role::Shifted,
            Verdict::Loosened
            | Verdict::Entropy
            | Verdict::Window
            | Verdict::Lenient
            | Verdict::Divergence
            | Verdict::Chance => Role::Loosened,
        }
    }

    pub fn look(self) -> &'static Look {
        &LOOKS[self as usize]
    }
}

impl Look {
    /// All SGR parameters, with the color unless `color` is off; empty where the text is left as it is.
    pub fn sgr(&self, color: bool) -> String {
        let ansi = self.ansi.filter(|_| color).map(|code| code.to_string());
        let parts = [Some(self.attributes.to_owned()).filter(|a| !a.is_empty()), ansi];
        parts.into_iter().flatten().collect::<Vec<_>>().join(";")
    }
}

/// How a method is marked next to its name.
pub fn lossless_mark(lossless: bool) -> &'static str {
    if lossless { "lossless" } else { "lossy" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_in_the_order_of_roles_and_differ_without_color() {
        for (i, look) in LOOKS.iter().enumerate() {
            assert_eq!(look.role as usize, i);
            assert_eq!(look.role.look(), look);
            for other in &LOOKS[i + 1..] {
                assert_ne!(look.sgr(false), other.sgr(false), "{} and {}", look.name, other.name);
                assert_ne!((look.light, look.dark), (other.light, other.dark));
            }
        }
    }

    #[test]
    fn loosened_and_strict_never_share_a_role() {
        for verdict in Verdict::ALL {
            let loose = matches!(Role::of(verdict), Role::Loosened | Role::Shifted);
            assert_eq!(loose, !verdict.is_strict(), "{verdict}");
            assert_eq!(loose, Role::of(verdict).look().attributes.contains('4'), "{verdict}");
        }
    }

    #[test]
    fn sgr_joins_attributes_and_color() {
        assert_eq!(Role::Shifted.look().sgr(true), "3;4;35");
        assert_eq!(Role::Shifted.look().sgr(false), "3;4");
        assert_eq!(Role::Strict.look().sgr(true), "");
    }
}
