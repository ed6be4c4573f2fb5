//! What the doctor looks at.

use std::path::Path;

use ffmpeg_next::codec;

use super::{Config, DoctorArgs, Finding, State};
use crate::{
    cli::{args::RunArgs, dirs::Dirs, resolve, terminal as term},
    client::{Client, Loaded},
    model::{ModelSpec, device},
    record::Failure,
};

/// Devices of this build and what the processor offers.
pub fn build() -> Vec<Finding> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut findings = vec![Finding::new("Devices", "cpu", State::Good, format!("{threads} threads"))];
    let (features, fast) = cpu_features();
    let state = if fast { State::Good } else { State::Warn };
    let mut cpu = Finding::new("Devices", "instructions", state, features);
    if !fast {
        cpu = cpu.hint("without AVX2 or NEON quantised weights are slow on this processor");
    }
    findings.push(cpu);
    findings.extend(device::found().into_iter().map(|found| {
        match found.about {
            Ok(about) => Finding::new("Devices", found.name, State::Good, about),
            Err(why) if found.built => Finding::new("Devices", found.name, State::Warn, why)
                .hint("captions are written on the CPU; see docs/devices.md"),
            Err(why) => Finding::new("Devices", found.name, State::Good, why),
        }
    }));
    if cfg!(debug_assertions) {
        let slow =
            Finding::new("Devices", "build", State::Warn, "a debug build: many times slower than a release");
        findings.push(slow.hint("make run builds a release"));
    }
    findings
}

/// Instruction sets that matter, and whether quantised weights are fast with them.
fn cpu_features() -> (String, bool) {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    let list = [
        ("avx", std::arch::is_x86_feature_detected!("avx")),
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("fma", std::arch::is_x86_feature_detected!("fma")),
        ("f16c", std::arch::is_x86_feature_detected!("f16c")),
        ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
        ("avx512vnni", std::arch::is_x86_feature_detected!("avx512vnni")),
    ];
    #[cfg(target_arch = "aarch64")]
    let list = [
        ("neon", std::arch::is_aarch64_feature_detected!("neon")),
        ("dotprod", std::arch::is_aarch64_feature_detected!("dotprod")),
        ("i8mm", std::arch::is_aarch64_feature_detected!("i8mm")),
    ];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
    let list: [(&str, bool); 0] = [];
    let there: Vec<&str> = list.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
    let fast = there.contains(&"avx2") || there.contains(&"neon");
    let words = if there.is_empty() { "none that we use".into() } else { there.join(" ") };
    (format!("{} {words}", std::env::consts::ARCH), fast)
}

/// FFmpeg's version and the decoders that videos usually need.
pub fn ffmpeg() -> Vec<Finding> {
    const AREA: &str = "FFmpeg";
    let version = |v: u32| format!("{}.{}.{}", v >> 16, (v >> 8) & 0xff, v & 0xff);
    if let Err(e) = ffmpeg_next::init() {
        return vec![
            Finding::new(AREA, "libraries", State::Bad, e.to_string()).hint("reinstall FFmpeg's libraries"),
        ];
    }
    ffmpeg_next::log::set_level(ffmpeg_next::log::Level::Quiet);
    let found = format!(
        "libavcodec {}, libavformat {}, libavutil {}",
        version(codec::version()),
        version(ffmpeg_next::format::version()),
        version(ffmpeg_next::util::version())
    );
    let mut findings = vec![Finding::new(AREA, "libraries", State::Good, found)];
    let wanted = [
        ("h264", codec::Id::H264, State::Bad),
        ("hevc", codec::Id::HEVC, State::Warn),
        ("vp9", codec::Id::VP9, State::Warn),
        ("av1", codec::Id::AV1, State::Warn),
        ("mpeg4", codec::Id::MPEG4, State::Warn),
        ("vp8", codec::Id::VP8, State::Warn),
        ("mjpeg", codec::Id::MJPEG, State::Warn),
        ("prores", codec::Id::PRORES, State::Warn),
    ];
    for (name, id, without) in wanted {
        findings.push(match codec::decoder::find(id) {
            Some(decoder) => Finding::new(AREA, name, State::Good, format!("decoder {}", decoder.name())),
            None => Finding::new(AREA, name, without, "no decoder")
                .hint("videos of this kind cannot be read; install a full FFmpeg"),
        });
    }
    findings
}

/// What the terminal can show.
pub fn terminal() -> Vec<Finding> {
    const AREA: &str = "Terminal";
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let mut findings = Vec::new();
    findings.push(if term::can_draw() {
        Finding::new(AREA, "studio", State::Good, "can be drawn here")
    } else {
        Finding::new(AREA, "studio", State::Warn, "not here: stdin or stdout is no terminal, or TERM is dumb")
            .hint("run specreel in a terminal; specreel caption works anywhere")
    });
    if let Ok((columns, rows)) = crossterm::terminal::size() {
        let size = Finding::new(AREA, "size", State::Good, format!("{columns} x {rows}"));
        let small = columns < 60 || rows < 16;
        findings.push(if small {
            Finding { state: State::Warn, ..size }.hint("the studio wants 60 x 16 or more")
        } else {
            size
        });
    }
    let colors = match supports_color::on(supports_color::Stream::Stdout) {
        Some(level) if level.has_16m => "16 million",
        Some(level) if level.has_256 => "256",
        Some(_) => "16",
        None if std::env::var_os("NO_COLOR").is_some() => "none (NO_COLOR is set)",
        None => "none",
    };
    findings.push(Finding::new(AREA, "colours", State::Good, colors));
    let kind = format!("TERM={} TERM_PROGRAM={}", variable("TERM"), variable("TERM_PROGRAM"));
    findings.push(Finding::new(AREA, "kind", State::Good, kind));
    findings.push(match term::locale() {
        None => Finding::new(AREA, "locale", State::Good, "none set; taken for UTF-8")
            .hint("if frames look broken: specreel --charset ascii"),
        Some(locale) if term::is_utf8(&locale) => Finding::new(AREA, "locale", State::Good, locale),
        Some(locale) => {
            let words = format!("{locale:?} does not say UTF-8: the studio is drawn in ASCII");
            Finding::new(AREA, "locale", State::Warn, words)
                .hint("export LANG=C.UTF-8, or run specreel --charset utf-8")
        }
    });
    findings
}

/// Whether our directories can be written.
pub fn directories() -> Vec<Finding> {
    const AREA: &str = "Directories";
    let Some(dirs) = Dirs::find() else {
        return vec![
            Finding::new(AREA, "home", State::Warn, "there is no home directory")
                .hint("set HOME; the demo goes to the temporary directory, nothing else is kept"),
        ];
    };
    let all =
        [("config", &dirs.config), ("data", &dirs.data), ("state", &dirs.state), ("cache", &dirs.cache)];
    all.into_iter()
        .map(|(name, dir)| {
            let found = dir.display().to_string();
            if writable(dir) {
                Finding::new(AREA, name, State::Good, found)
            } else {
                Finding::new(AREA, name, State::Warn, format!("{found} cannot be written"))
                    .hint(format!("make it writable, or set XDG_{}_HOME", name.to_uppercase()))
            }
        })
        .collect()
}

/// True if a file can be made there, or in the nearest folder above that exists. Leaves nothing behind.
fn writable(dir: &Path) -> bool {
    let Some(there) = dir.ancestors().find(|d| d.exists()) else { return false };
    let probe = there.join(format!(".specreel-doctor-{}", std::process::id()));
    let made = std::fs::File::create(&probe).is_ok();
    made && std::fs::remove_file(&probe).is_ok()
}

/// What is wrong with the user's `config.toml`; nothing if nothing is.
pub fn configuration(config: &Result<Config, Failure>) -> Vec<Finding> {
    // A file that cannot be read stops every command that takes something from it, a value only those that need it.
    let (state, failures) = match config {
        Ok(config) => (State::Warn, config.mistakes()),
        Err(failure) => (State::Bad, vec![failure.clone()]),
    };
    let finding = |failure: Failure| {
        let finding = Finding::new("Directories", "config.toml", state, failure.error);
        failure.hint.into_iter().fold(finding, Finding::hint)
    };
    failures.into_iter().map(finding).collect()
}

/// Which models there are, and whether they load.
pub fn models(args: &DoctorArgs, config: &Config) -> Vec<Finding> {
    const AREA: &str = "Models";
    let bad = |name: &str, failure: Failure| {
        let finding = Finding::new(AREA, name, State::Bad, failure.error);
        match failure.hint {
            Some(hint) => finding.hint(hint),
            None => finding,
        }
    };
    let none = RunArgs { device: args.device, dtype: args.dtype, ..RunArgs::default() };
    let spec = match resolve::models(args.target.as_deref(), args.drafter.as_deref(), &none, config) {
        Ok(spec) => spec,
        Err(failure) => return vec![bad("models", failure)],
    };
    let mut findings = vec![Finding::new(AREA, "target", State::Good, spec.target.display().to_string())];
    findings.push(match &spec.drafter {
        Some(drafter) => Finding::new(AREA, "drafter", State::Good, drafter.display().to_string()),
        None => Finding::new(AREA, "drafter", State::Warn, "none")
            .hint("methods with a small model need --drafter DIR"),
    });
    findings.extend(spec.heads.iter().map(|head| {
        let recipe = resolve::recipe(head)
            .map_or("trained layer".into(), |recipe| format!("{recipe:?}").to_lowercase());
        Finding::new(AREA, recipe, State::Good, head.display().to_string())
    }));
    findings.push(match load(spec) {
        Ok(words) => Finding::new(AREA, "loading", State::Good, words),
        Err(failure) => bad("loading", failure),
    });
    findings
}

fn load(spec: ModelSpec) -> Result<String, Failure> {
    let Loaded { target, drafter, device, dtype, notes } = Client::start()?.load_blocking(spec)?;
    let pair = drafter.map_or(target.clone(), |d| format!("{target} with {d}"));
    let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
    Ok(format!("{pair} on {device}, {dtype}{notes}"))
}
