use super::*;

#[test]
fn every_built_in_theme_styles_every_role() {
    for (name, text) in BUILT_IN {
        let table: toml::Table = text.parse().unwrap();
        for (_, role) in Role::ALL {
            assert!(table.contains_key(*role), "{name} has no {role}");
        }
        Theme::built_in(name, ColorDepth::True).unwrap();
    }
}

/// One meaning for a color everywhere: the hue of the legend in every theme, and its modifiers, which alone suffice.
#[test]
fn verdicts_follow_the_legend_in_every_theme() {
    let hues: [(u8, &[Color]); 5] = [
        (32, &[Color::Green, Color::LightGreen]),
        (33, &[Color::Yellow, Color::LightYellow]),
        (34, &[Color::Blue, Color::LightBlue, Color::Cyan]),
        (35, &[Color::Magenta, Color::LightMagenta]),
        (36, &[Color::Cyan, Color::LightCyan, Color::Blue, Color::LightBlue]),
    ];
    for (name, _) in BUILT_IN {
        let [plain, ansi] = [ColorDepth::None, ColorDepth::Ansi].map(|d| Theme::built_in(name, d).unwrap());
        for look in &verdicts::LOOKS {
            let role = Role::of(look.role);
            let codes = look.attributes.split(';').filter(|code| !code.is_empty());
            let modifiers = codes.map(|code| match code {
                "1" => Modifier::BOLD,
                "2" => Modifier::DIM,
                "3" => Modifier::ITALIC,
                "4" => Modifier::UNDERLINED,
                other => panic!("{other}"),
            });
            let modifiers = modifiers.fold(Modifier::empty(), Modifier::union);
            let style = ansi.style(role);
            assert_eq!(style.add_modifier, modifiers, "{name} {}", look.name);
            assert_eq!(plain.style(role), Style::new().add_modifier(modifiers), "{name} {}", look.name);
            let hue = look.ansi.and_then(|code| hues.iter().find(|(known, _)| *known == code));
            if let (Some((_, colors)), true) = (hue, name != "mono") {
                assert!(style.fg.is_some_and(|fg| colors.contains(&fg)), "{name} {}: {style:?}", look.name);
            }
        }
        assert!(plain.style(Role::Selection).add_modifier.contains(Modifier::REVERSED), "{name}");
    }
}

/// Words for a light background cannot be read on a dark one, so a light theme brings its own, at every color depth.
#[test]
fn light_themes_have_a_background() {
    let text = |name: &str, depth| Theme::built_in(name, depth).unwrap().style(Role::Text);
    for name in ["light", "catppuccin-latte", "solarized-light"] {
        for depth in [ColorDepth::Ansi, ColorDepth::Indexed] {
            let style = text(name, depth);
            assert_eq!((style.fg, style.bg), (Some(Color::Black), Some(Color::White)), "{name}");
        }
        let style = text(name, ColorDepth::True);
        let (Some(Color::Rgb(ink, ..)), Some(Color::Rgb(ground, ..))) = (style.fg, style.bg) else {
            panic!("{name}: {style:?}")
        };
        assert!(ground > 200 && ink < 120, "{name}: {style:?}");
        assert_eq!(text(name, ColorDepth::None), Style::new(), "{name}");
    }
}

#[test]
fn a_theme_is_remembered_while_it_exists() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state/theme");
    assert_eq!(Theme::remembered(&file, None), None);
    std::fs::create_dir(dir.path().join("state")).unwrap();
    for (name, known) in [("nord", true), ("mine", false), ("light", true)] {
        std::fs::write(&file, format!("{name}\n")).unwrap();
        assert_eq!(Theme::remembered(&file, None), known.then(|| name.to_owned()));
    }
    std::fs::write(dir.path().join("mine.toml"), "").unwrap();
    std::fs::write(&file, "mine\n").unwrap();
    assert_eq!(Theme::remembered(&file, Some(dir.path())).as_deref(), Some("mine"));
    assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left next to it");
}

#[test]
fn errors_name_file_line_role_and_field() {
    for (text, key, way) in [
        ("\naccnt = {}", "mine.toml:2: accnt", "accent"),
        ("[accent]\nmods = []\nfg = \"teal\"", "mine.toml:3: accent.fg", "cyan"),
        ("accent = { fg_rgb = \"red\" }", "accent.fg_rgb", "#7dcfd6"),
        ("accent = { mods = [\"blink\"] }", "accent.mods", "underlined"),
        ("\n\naccent = { color = 1 }", "mine.toml:3: accent", "fg"),
        ("accent = ", "mine.toml:1: invalid TOML", "fg"),
    ] {
        let error = Theme::read("mine", ("mine.toml", text), ColorDepth::True, None).unwrap_err();
        let said = format!("{error} / {}", error.hint().unwrap_or_default());
        assert!(said.contains("mine.toml") && said.contains(key) && said.contains(way), "{said}");
    }
}

/// Contrast as WCAG defines it, 1 to 21, of the true colors on what they are written on. Lines may be faint.
#[test]
fn every_style_of_every_theme_can_be_read() {
    let luminance = |color: Color| {
        let Color::Rgb(r, g, b) = color else { panic!("{color}") };
        let linear = |value: u8| match f64::from(value) / 255.0 {
            value if value <= 0.040_45 => value / 12.92,
            value => ((value + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
    };
    for name in Theme::names().filter(|name| *name != "mono") {
        let theme = Theme::built_in(name, ColorDepth::True).unwrap();
        let text = theme.style(Role::Text);
        for (role, key) in Role::ALL {
            let style = theme.style(*role);
            // The terminal's own colors are a dark terminal's.
            let ink = style.fg.or(text.fg).unwrap_or(Color::Rgb(0xd6, 0xda, 0xe2));
            let ground = style.bg.or(text.bg).unwrap_or(Color::Rgb(0x14, 0x17, 0x1c));
            let [low, high] = [ink, ground].map(luminance);
            let contrast = (low.max(high) + 0.05) / (low.min(high) + 0.05);
            let least = match role {
                Role::Text | Role::Strict | Role::Title => 4.5,
                Role::Border | Role::GaugeRest => 1.2,
                _ => 2.8,
            };
            assert!(contrast >= least, "{name} {key}: {contrast:.2}");
        }
    }
}

#[test]
fn colorfgbg_selects_the_theme() {
    assert_eq!(guessed(None), "dark");
    assert_eq!(guessed(Some("15;0")), "dark");
    assert_eq!(guessed(Some("0;15")), "light");
    assert_eq!(guessed(Some("0;default;15")), "light");
}
