//! Themes: a style for each [`Role`]. Panes ask for roles and never name a color.
//!
//! A style has an ANSI color, which the terminal shows in the user's own palette, and may have a true color, used only on
//! terminals that support it. Without colors (`NO_COLOR`, `mono`) the modifiers alone distinguish the roles. The styles of
//! verdicts follow the legend in [`verdicts`].

use std::{borrow::Cow, ops::Range, path::Path};

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use serde::Deserialize;
use serde_json::json;
use toml::Spanned;
use toml::de::{DeTable, ValueDeserializer};

use super::{color_depth::ColorDepth, error::StudioError};
use specreel_client::{present::verdicts, toml_files};
use specreel_record::Verdict;

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
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Role { $($variant),* }

        impl Role {
            const ALL: &'static [(Role, &'static str)] = &[$((Role::$variant, $name)),*];
        }
    };
}

/// What a style looks like in a file.
const EXAMPLE: &str =
    "write styles such as: accent = { fg = \"cyan\", fg_rgb = \"#7dcfd6\", mods = [\"bold\"] }";

roles! {
    Text "text", Dim "dim", Accent "accent", Title "title", Key "key", Border "border", BorderFocus "border_focus",
    Selection "selection", SelectionDim "selection_dim", Strict "strict", Plain "plain", Loosened "loosened",
    Shifted "shifted", Corrected "corrected", Bonus "bonus", Forced "forced", Good "good", Warn "warn", Bad "bad", Gauge "gauge",
    GaugeRest "gauge_rest", Ghost "ghost", Rejected "rejected",
}

#[derive(Clone, Debug, PartialEq)]
pub struct Theme {
    pub name: String,
    styles: Vec<Style>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct RawStyle {
    fg: Option<Spanned<String>>,
    fg_rgb: Option<Spanned<String>>,
    bg: Option<Spanned<String>>,
    bg_rgb: Option<Spanned<String>>,
    mods: Vec<Spanned<String>>,
}

/// The valid themes, and the names and errors of the others.
pub(crate) type Readable = (Vec<Theme>, Vec<(String, StudioError)>);

impl Theme {
    /// The built-in themes and a directory's, one for each `*.toml`; a file named like a built-in theme replaces it.
    /// Roles that a theme leaves out are taken from `dark`.
    /// Errors: a file cannot be read, or is invalid.
    pub fn all(folder: Option<&Path>, depth: ColorDepth) -> Result<Vec<Self>, StudioError> {
        let (themes, mut wrong) = Self::readable(folder, depth)?;
        if wrong.is_empty() { Ok(themes) } else { Err(wrong.remove(0).1) }
    }

    /// The errors of the theme files in a directory.
    pub fn problems(folder: &Path) -> Vec<StudioError> {
        match Self::readable(Some(folder), ColorDepth::True) {
            Ok((_, wrong)) => wrong.into_iter().map(|(_, error)| error).collect(),
            Err(error) => vec![error],
        }
    }

    /// As [`Theme::all`], with invalid themes apart, so that they matter only if they are selected.
    pub(crate) fn readable(folder: Option<&Path>, depth: ColorDepth) -> Result<Readable, StudioError> {
        let (mut themes, mut wrong) = (Vec::new(), Vec::new());
        let without_colors = BUILT_IN.iter().find(|(name, _)| *name == "mono").map(|(_, text)| *text);
        for (name, text) in BUILT_IN {
            // Without colors, themes that rely on them could not be read.
            let text = without_colors.filter(|_| depth == ColorDepth::None).unwrap_or(text);
            themes.push(Self::read(name, (&format!("built-in theme {name}"), text), depth, None)?);
        }
        for file in folder.map(toml_files).unwrap_or_default() {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&file)
                .map_err(|source| StudioError::Read { file: file.clone(), source });
            let read = text.and_then(|text| {
                Self::read(&name, (&file.display().to_string(), &text), depth, themes.first())
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
    pub fn built_in(name: &str, depth: ColorDepth) -> Result<Self, StudioError> {
        let mut themes = Self::all(None, depth)?;
        let at = Self::position(&themes, name)?;
        Ok(themes.swap_remove(at))
    }

    /// The index of the theme of this name; `auto` is dark or light by `COLORFGBG`.
    /// Errors: there is none.
    pub fn position(themes: &[Self], name: &str) -> Result<usize, StudioError> {
        let name = match name {
            "auto" | "" => guessed(std::env::var("COLORFGBG").ok().as_deref()),
            name => name,
        };
        themes.iter().position(|t| t.name == name).ok_or_else(|| {
            let known = themes.iter().map(|t| t.name.clone()).collect::<Vec<_>>().join(", ");
            StudioError::NoTheme { name: name.into(), known }
        })
    }

    pub(crate) fn remembered(file: &Path, folder: Option<&Path>) -> Option<String> {
        let name = std::fs::read_to_string(file).ok()?.trim().to_owned();
        let (themes, _) = Self::readable(folder, ColorDepth::None).ok()?;
        themes.iter().any(|theme| theme.name == name).then_some(name)
    }

    pub fn schema() -> serde_json::Value {
        let named = json!({"enum": [
            "black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray", "dark-gray", "light-red",
            "light-green", "light-yellow", "light-blue", "light-magenta", "light-cyan", "white", "reset"
        ]});
        let exact = json!({"type": "string", "pattern": "^#[0-9a-fA-F]{6}$"});
        let modifier = json!({"enum": ["bold", "dim", "italic", "underlined", "reversed", "crossed-out"]});
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
            "description": "A style for each role; roles that are left out are taken from `dark`.",
            "type": "object",
            "properties": properties,
            "additionalProperties": false
        })
    }

    /// The text of the built-in theme `dark`, as a starting point for a user's own.
    pub fn example() -> &'static str {
        BUILT_IN[0].1
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.into_iter().map(|(name, _)| name)
    }

    fn read(
        name: &str,
        source: (&str, &str),
        depth: ColorDepth,
        base: Option<&Theme>,
    ) -> Result<Self, StudioError> {
        let table =
            DeTable::parse(source.1).map_err(|error| StudioError::not_toml(source, &error, EXAMPLE))?;
        let mut styles = base.map_or_else(|| vec![Style::new(); Role::ALL.len()], |base| base.styles.clone());
        for (key, value) in table.into_inner() {
            let (at, key) = (key.span(), key.into_inner());
            if key == "about" {
                continue;
            }
            let Some((role, _)) = Role::ALL.iter().find(|(_, n)| *n == key) else {
                let known = Role::ALL.iter().map(|(_, n)| *n).collect::<Vec<_>>().join(", ");
                let hint = format!("expected one of: {known}");
                return Err(StudioError::invalid(source, at, key, "unknown role", hint));
            };
            let raw = RawStyle::deserialize(ValueDeserializer::from(value)).map_err(|error| {
                StudioError::invalid(
                    source,
                    error.span().unwrap_or(at),
                    key.clone(),
                    error.message(),
                    EXAMPLE,
                )
            })?;
            styles[*role as usize] = raw.style(*role, depth).map_err(|(at, field, problem, hint)| {
                StudioError::invalid(source, at, format!("{key}.{field}"), problem, hint)
            })?;
        }
        Ok(Self { name: name.into(), styles })
    }

    pub fn style(&self, role: Role) -> Style {
        self.styles[role as usize]
    }

    pub fn span<'a>(&self, role: Role, words: impl Into<Cow<'a, str>>) -> Span<'a> {
        Span::styled(words, self.style(role))
    }

    pub fn line<'a>(&self, role: Role, words: impl Into<Cow<'a, str>>) -> Line<'a> {
        Line::styled(words, self.style(role))
    }

    pub(crate) fn verdict(&self, verdict: Verdict) -> Style {
        self.style(Role::of(verdicts::Role::of(verdict)))
    }
}

/// Dark or light by `COLORFGBG`, which is `foreground;background` as ANSI color numbers.
fn guessed(colorfgbg: Option<&str>) -> &'static str {
    let background = colorfgbg.and_then(|v| v.rsplit(';').next()).and_then(|v| v.parse::<u8>().ok());
    match background {
        Some(7 | 9..=15) => "light",
        _ => "dark",
    }
}

impl Role {
    /// The theme's role for one of the legend.
    fn of(role: verdicts::Role) -> Self {
        match role {
            verdicts::Role::Strict => Role::Strict,
            verdicts::Role::Plain => Role::Plain,
            verdicts::Role::Corrected => Role::Corrected,
            verdicts::Role::Bonus => Role::Bonus,
            verdicts::Role::Forced => Role::Forced,
            verdicts::Role::Loosened => Role::Loosened,
            verdicts::Role::Shifted => Role::Shifted,
        }
    }
}

/// The place in the file, the field, the mistake, and the correction.
type Invalid = (Range<usize>, &'static str, String, &'static str);

const MODIFIERS: [(&str, Modifier); 6] = [
    ("bold", Modifier::BOLD),
    ("dim", Modifier::DIM),
    ("italic", Modifier::ITALIC),
    ("underlined", Modifier::UNDERLINED),
    ("reversed", Modifier::REVERSED),
    ("crossed-out", Modifier::CROSSED_OUT),
];

impl RawStyle {
    fn style(&self, role: Role, depth: ColorDepth) -> Result<Style, Invalid> {
        let named =
            |field, value| color(field, value, |c| !matches!(c, Color::Rgb(..) | Color::Indexed(_)), NAMED);
        let exact =
            |field, value| color(field, value, |c| matches!(c, Color::Rgb(..)), "write it as \"#7dcfd6\"");
        let pick = |named: Option<Color>, exact: Option<Color>| match depth {
            ColorDepth::None => None,
            ColorDepth::Ansi | ColorDepth::Indexed => named,
            ColorDepth::True => exact.or(named),
        };
        let mut style = Style::new();
        style.fg = pick(named("fg", &self.fg)?, exact("fg_rgb", &self.fg_rgb)?);
        style.bg = pick(named("bg", &self.bg)?, exact("bg_rgb", &self.bg_rgb)?);
        for name in &self.mods {
            let known = MODIFIERS.iter().find(|(known, _)| known == name.get_ref());
            let (_, modifier) = known.ok_or_else(|| {
                let problem = format!("unknown modifier: {}", name.get_ref());
                (
                    name.span(),
                    "mods",
                    problem,
                    "expected one of: bold, dim, italic, underlined, reversed, crossed-out",
                )
            })?;
            style = style.add_modifier(*modifier);
        }
        // A selection is shown by its background alone: without colors it is reversed. The text's background means nothing.
        if depth == ColorDepth::None && self.bg.is_some() && self.fg.is_some() && role != Role::Text {
            style = style.add_modifier(Modifier::REVERSED);
        }
        Ok(style)
    }
}

const NAMED: &str =
    "expected one of: black, red, green, yellow, blue, magenta, cyan, gray, dark-gray, light-red, …, white";

/// A color of the kind that the field takes.
fn color(
    field: &'static str,
    value: &Option<Spanned<String>>,
    is_right: impl Fn(&Color) -> bool,
    hint: &'static str,
) -> Result<Option<Color>, Invalid> {
    let Some(value) = value else { return Ok(None) };
    let color = value.get_ref().parse().ok().filter(is_right);
    color.map(Some).ok_or_else(|| (value.span(), field, format!("invalid color: {}", value.get_ref()), hint))
}

#[cfg(test)]
#[path = "theme_tests.rs"]
mod tests;
