//! Colours by meaning. A theme gives each [`Role`] a style; panes ask for roles and never name a colour.
//!
//! A role has an ANSI colour, which every terminal shows in the user's own palette, and may have a true colour, used only
//! where the terminal says that it can. Without colours at all (NO_COLOR, `mono`) the modifiers alone tell things apart.

use std::{collections::BTreeMap, path::Path};

use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;
use serde_json::json;

use super::StudioError;
use crate::record::Verdict;

/// The built-in themes: name and file.
const BUILT_IN: [(&str, &str); 12] = [
    ("dark", include_str!("../../themes/dark.toml")),
    ("light", include_str!("../../themes/light.toml")),
    ("high-contrast", include_str!("../../themes/high-contrast.toml")),
    ("mono", include_str!("../../themes/mono.toml")),
    ("catppuccin", include_str!("../../themes/catppuccin.toml")),
    ("catppuccin-latte", include_str!("../../themes/catppuccin-latte.toml")),
    ("dracula", include_str!("../../themes/dracula.toml")),
    ("gruvbox", include_str!("../../themes/gruvbox.toml")),
    ("nord", include_str!("../../themes/nord.toml")),
    ("solarized-dark", include_str!("../../themes/solarized-dark.toml")),
    ("solarized-light", include_str!("../../themes/solarized-light.toml")),
    ("tokyo-night", include_str!("../../themes/tokyo-night.toml")),
];

macro_rules! roles {
    ($($variant:ident $name:literal),* $(,)?) => {
        /// What a part of the screen means.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Role { $($variant),* }

        impl Role {
            const ALL: &'static [(Role, &'static str)] = &[$((Role::$variant, $name)),*];
        }
    };
}

roles! {
    Text "text", Dim "dim", Accent "accent", Title "title", Key "key", Border "border", BorderFocus "border_focus",
    Selection "selection", SelectionDim "selection_dim", Strict "strict", Plain "plain", Loosened "loosened",
    Shifted "shifted", Corrected "corrected", Bonus "bonus", Good "good", Warn "warn", Bad "bad", Gauge "gauge",
    GaugeRest "gauge_rest",
}

/// How many colours the terminal shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorDepth {
    /// None, or NO_COLOR is set.
    None,
    /// The sixteen of the user's palette.
    #[default]
    Ansi,
    /// Those, and 240 that are the same everywhere.
    Indexed,
    /// 24 bits.
    True,
}

impl ColorDepth {
    /// What the terminal on standard output can do, NO_COLOR honoured.
    pub fn detect() -> Self {
        Self::of(supports_color::Stream::Stdout)
    }

    /// What the terminal on this stream can do, NO_COLOR honoured.
    pub fn of(stream: supports_color::Stream) -> Self {
        match supports_color::on(stream) {
            None => ColorDepth::None,
            Some(level) if level.has_16m => ColorDepth::True,
            Some(level) if level.has_256 => ColorDepth::Indexed,
            Some(_) => ColorDepth::Ansi,
        }
    }
}

/// A theme: a style for every role.
#[derive(Clone, Debug, PartialEq)]
pub struct Theme {
    /// Its name: that of its file.
    pub name: String,
    styles: Vec<Style>,
}

#[derive(Deserialize)]
struct RawTheme {
    #[serde(default, rename = "about")]
    _about: String,
    #[serde(flatten)]
    roles: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct RawStyle {
    fg: Option<String>,
    fg_rgb: Option<String>,
    bg: Option<String>,
    bg_rgb: Option<String>,
    mods: Vec<String>,
}

/// The themes, and the files that are none: their names and what is wrong.
pub(crate) type Readable = (Vec<Theme>, Vec<(String, StudioError)>);

impl Theme {
    /// The built-in themes and those of a folder, one for each `*.toml`; a file named like a built-in theme replaces it.
    /// Roles that a user's theme leaves out are those of `dark`.
    ///
    /// # Errors
    /// A file cannot be read or is no theme.
    pub fn all(folder: Option<&Path>, depth: ColorDepth) -> Result<Vec<Self>, StudioError> {
        let (themes, mut wrong) = Self::readable(folder, depth)?;
        if wrong.is_empty() { Ok(themes) } else { Err(wrong.remove(0).1) }
    }

    /// What is wrong with the themes of a folder, one for each file that is none.
    pub fn problems(folder: &Path) -> Vec<StudioError> {
        match Self::readable(Some(folder), ColorDepth::True) {
            Ok((_, wrong)) => wrong.into_iter().map(|(_, error)| error).collect(),
            Err(error) => vec![error],
        }
    }

    /// The same as [`Theme::all`], with the files that are none of their own, by the name that they would have: one that nobody chose keeps
    /// nobody from anything.
    ///
    /// # Errors
    /// Never, as the tests make sure: only a built-in theme could be wrong.
    pub(crate) fn readable(folder: Option<&Path>, depth: ColorDepth) -> Result<Readable, StudioError> {
        let (mut themes, mut wrong) = (Vec::new(), Vec::new());
        let without_colours = BUILT_IN.iter().find(|(name, _)| *name == "mono").map(|(_, text)| *text);
        for (name, text) in BUILT_IN {
            // Themes that tell by colours alone would tell nothing.
            let text = without_colours.filter(|_| depth == ColorDepth::None).unwrap_or(text);
            themes.push(Self::read(name, &format!("built-in theme {name}"), text, depth, None)?);
        }
        let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok());
        let mut files: Vec<_> = entries.into_iter().flatten().flatten().map(|e| e.path()).collect();
        files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
        files.sort();
        for file in files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&file)
                .map_err(|source| StudioError::Read { file: file.clone(), source });
            let read = text.and_then(|text| {
                Self::read(&name, &file.display().to_string(), &text, depth, themes.first())
            });
            match (read, themes.iter_mut().find(|t| t.name == name)) {
                (Ok(theme), Some(old)) => *old = theme,
                (Ok(theme), None) => themes.push(theme),
                (Err(error), _) => wrong.push((name, error)),
            }
        }
        Ok((themes, wrong))
    }

    /// The built-in theme of this name, for tests and pictures.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn built_in(name: &str, depth: ColorDepth) -> Result<Self, StudioError> {
        let mut themes = Self::all(None, depth)?;
        let at = Self::position(&themes, name)?;
        Ok(themes.swap_remove(at))
    }

    /// The place of the theme of this name.
    ///
    /// # Errors
    /// There is none of that name.
    pub(crate) fn position(themes: &[Self], name: &str) -> Result<usize, StudioError> {
        themes.iter().position(|t| t.name == name).ok_or_else(|| {
            let known = themes.iter().map(|t| t.name.clone()).collect::<Vec<_>>().join(", ");
            StudioError::NoTheme { name: name.into(), known }
        })
    }

    /// What a theme may say, as a JSON schema.
    pub fn schema() -> serde_json::Value {
        let named = json!({"enum": [
            "black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray", "dark-gray", "light-red",
            "light-green", "light-yellow", "light-blue", "light-magenta", "light-cyan", "white", "reset"
        ]});
        let exact = json!({"type": "string", "pattern": "^#[0-9a-fA-F]{6}$"});
        let modifier = json!({"enum": ["bold", "dim", "italic", "underlined", "reversed"]});
        let style = json!({
            "type": "object",
            "properties": {
                "fg": named, "fg_rgb": exact, "bg": named, "bg_rgb": exact,
                "mods": {"type": "array", "items": modifier}
            },
            "additionalProperties": false
        });
        let roles = Role::ALL.iter().map(|(_, name)| ((*name).to_owned(), style.clone()));
        let about = ("about".to_owned(), json!({"type": "string"}));
        let properties: serde_json::Map<_, _> = std::iter::once(about).chain(roles).collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Theme of specreel",
            "description": "A style for each role; roles that are left out are those of `dark`.",
            "type": "object",
            "properties": properties,
            "additionalProperties": false
        })
    }

    /// The text of the built-in theme `dark`, to begin one's own with.
    pub fn example() -> &'static str {
        BUILT_IN[0].1
    }

    /// The names of the built-in themes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.into_iter().map(|(name, _)| name)
    }

    fn read(
        name: &str,
        file: &str,
        text: &str,
        depth: ColorDepth,
        base: Option<&Theme>,
    ) -> Result<Self, StudioError> {
        let wrong = |key: &str, problem: String, instead: String| {
            let line = super::lines::line_of(text, None, key.split('.').next());
            StudioError::Theme { file: super::lines::place(file, line), key: key.into(), problem, instead }
        };
        let example = "write  accent = { fg = \"cyan\", fg_rgb = \"#7dcfd6\", mods = [\"bold\"] }";
        let raw: RawTheme = toml::from_str(text)
            .map_err(|e| wrong("the file", e.message().to_owned(), example.to_owned()))?;
        let mut styles = base.map_or_else(|| vec![Style::new(); Role::ALL.len()], |base| base.styles.clone());
        for (key, value) in raw.roles {
            let Some((role, _)) = Role::ALL.iter().find(|(_, n)| *n == key) else {
                let known = Role::ALL.iter().map(|(_, n)| *n).collect::<Vec<_>>().join(", ");
                return Err(wrong(&key, "no such role".into(), format!("use one of {known}")));
            };
            let raw: RawStyle = value
                .try_into()
                .map_err(|e: toml::de::Error| wrong(&key, e.message().to_owned(), example.to_owned()))?;
            styles[*role as usize] = raw.style(*role, depth).map_err(|(field, problem, instead)| {
                wrong(&format!("{key}.{field}"), problem, instead.to_owned())
            })?;
        }
        Ok(Self { name: name.into(), styles })
    }

    /// The style of a role.
    pub(crate) fn style(&self, role: Role) -> Style {
        self.styles[role as usize]
    }

    /// The style of a token.
    pub(crate) fn verdict(&self, verdict: Verdict) -> Style {
        self.style(match verdict {
            Verdict::Plain => Role::Plain,
            Verdict::Exact | Verdict::Sampled => Role::Strict,
            Verdict::Corrected => Role::Corrected,
            Verdict::Bonus => Role::Bonus,
            Verdict::Shifted => Role::Shifted,
            _ => Role::Loosened,
        })
    }
}

type Complaint = (&'static str, String, &'static str);

impl RawStyle {
    fn style(&self, role: Role, depth: ColorDepth) -> Result<Style, Complaint> {
        let mut style = Style::new();
        style.fg = color("fg", "fg_rgb", self.fg.as_deref(), self.fg_rgb.as_deref(), depth)?;
        style.bg = color("bg", "bg_rgb", self.bg.as_deref(), self.bg_rgb.as_deref(), depth)?;
        for name in &self.mods {
            style = style.add_modifier(match name.as_str() {
                "bold" => Modifier::BOLD,
                "dim" => Modifier::DIM,
                "italic" => Modifier::ITALIC,
                "underlined" => Modifier::UNDERLINED,
                "reversed" => Modifier::REVERSED,
                _ => {
                    let problem = format!("\"{name}\" is no modifier");
                    return Err(("mods", problem, "use bold, dim, italic, underlined or reversed"));
                }
            });
        }
        // A background is the only sign of a selection: where colours are off, reversing stands in for it. That of the
        // text is no sign of anything.
        if depth == ColorDepth::None && self.bg.is_some() && self.fg.is_some() && role != Role::Text {
            style = style.add_modifier(Modifier::REVERSED);
        }
        Ok(style)
    }
}

fn color(
    name_field: &'static str,
    rgb_field: &'static str,
    name: Option<&str>,
    rgb: Option<&str>,
    depth: ColorDepth,
) -> Result<Option<Color>, Complaint> {
    const WAY: &str =
        "use black, red, green, yellow, blue, magenta, cyan, gray, dark-gray, light-red, …, white";
    let named = match name {
        Some(text) => {
            let color: Color = text
                .parse()
                .ok()
                .filter(|c| !matches!(c, Color::Rgb(..) | Color::Indexed(_)))
                .ok_or_else(|| (name_field, format!("\"{text}\" is none of the sixteen colours"), WAY))?;
            Some(color)
        }
        None => None,
    };
    let exact = match rgb {
        Some(text) => {
            let color: Color =
                text.parse().ok().filter(|c| matches!(c, Color::Rgb(..))).ok_or_else(|| {
                    (rgb_field, format!("\"{text}\" is no colour"), "write it like \"#7dcfd6\"")
                })?;
            Some(color)
        }
        None => None,
    };
    Ok(match depth {
        ColorDepth::None => None,
        ColorDepth::Ansi | ColorDepth::Indexed => named,
        ColorDepth::True => exact.or(named),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_theme_styles_every_role() {
        for (name, text) in BUILT_IN {
            let raw: RawTheme = toml::from_str(text).unwrap();
            for (_, role) in Role::ALL {
                assert!(raw.roles.contains_key(*role), "{name} has no {role}");
            }
            Theme::built_in(name, ColorDepth::True).unwrap();
        }
    }

    #[test]
    fn without_colours_the_verdicts_still_differ() {
        for (name, _) in BUILT_IN {
            let theme = Theme::built_in(name, ColorDepth::None).unwrap();
            let roles = [Role::Strict, Role::Loosened, Role::Shifted, Role::Corrected];
            let styles = roles.map(|r| theme.style(r));
            for (i, a) in styles.iter().enumerate() {
                assert!(a.fg.is_none() && a.bg.is_none(), "{name}: {a:?}");
                assert!(!styles[i + 1..].contains(a), "{name}: two verdicts look alike");
            }
            assert!(theme.style(Role::Selection).add_modifier.contains(Modifier::REVERSED), "{name}");
        }
    }

    #[test]
    fn mistakes_name_the_role_and_the_way_out() {
        for (text, key, way) in [
            ("\naccnt = {}", "mine.toml:2: accnt", "accent"),
            ("accent = { fg = \"teal\" }", "accent.fg", "cyan"),
            ("accent = { fg_rgb = \"red\" }", "accent.fg_rgb", "#7dcfd6"),
            ("accent = { mods = [\"blink\"] }", "accent.mods", "underlined"),
            ("accent = { color = 1 }", "accent", "fg"),
        ] {
            let error = Theme::read("mine", "mine.toml", text, ColorDepth::True, None).unwrap_err();
            let said = format!("{error} / {}", error.hint().unwrap_or_default());
            assert!(said.contains("mine.toml") && said.contains(key) && said.contains(way), "{said}");
        }
    }
}
