//! The checks of `specreel doctor`.

use ffmpeg_next::codec;

use super::*;
use crate::cli::args::{doctor::DoctorArgs, run::RunArgs, values};
use crate::cli::{commands, output::terminal as term};
use crate::look::{ColorDepth, no_color};
use specreel_model::{decoder::self_test::SelfTest, draft_head::Recipe};
use specreel_os::dirs::{HOME, UserDir};
use specreel_record::Ready;
use specreel_tensor::cpu::{kernels, thread_pool::ThreadPool};
use specreel_tensor::{self as device, ComputeDevice, DeviceChoice, Gpu, WeightType};

/// Devices of this build, and the kernels that this processor runs.
pub fn build() -> Vec<Finding> {
    let threads = match ThreadPool::global().members() {
        1 => "1 thread".to_owned(),
        n => format!("{n} threads"),
    };
    let mut findings =
        vec![Finding::new("Devices", "cpu", State::Good, format!("{}, {threads}", std::env::consts::ARCH))];
    findings.push(match kernels::implementation() {
        kernels::PORTABLE => Finding::new("Devices", "kernels", State::Warn, kernels::PORTABLE)
            .hint("the fast 8-bit kernels need AVX2 and FMA, or 64-bit ARM; decoding works, but is slower"),
        fast => Finding::new("Devices", "kernels", State::Good, fast),
    });
    findings.extend(device::accelerators().into_iter().flat_map(|found| {
        let tested = found.about.is_ok().then(|| self_test(&found.name)).flatten();
        let finding = match found.about {
            Ok(about) => Finding::new("Devices", found.name, State::Good, about),
            Err(why) if found.built => Finding::new("Devices", found.name, State::Warn, why)
                .hint("specreel uses the CPU instead; see docs/devices.md"),
            Err(why) => Finding::new("Devices", found.name, State::Absent, why),
        };
        std::iter::once(finding).chain(tested)
    }));
    if cfg!(debug_assertions) {
        let slow = Finding::new(
            "Devices",
            "build",
            State::Warn,
            "debug build, many times slower than a release build",
        );
        findings.push(slow.hint("make run builds a release"));
    }
    findings
}

/// What a GPU computes, compared with the CPU; `None` for other devices.
fn self_test(name: &str) -> Option<Finding> {
    let Ok(DeviceChoice::Gpu(number)) = values::device(name) else { return None };
    let area = format!("{name} test");
    let finding = |state, about: String| Some(Finding::new("Devices", area.clone(), state, about));
    let opened = match Gpu::open(number) {
        Ok(gpu) => gpu,
        Err(failure) => return finding(State::Warn, failure.error),
    };
    let found = match SelfTest::run(&|dtype| ComputeDevice::gpu_device(opened.clone(), dtype)) {
        Ok(found) => found,
        Err(error) => return finding(State::Warn, error.to_string()),
    };
    let share = |(dtype, difference): &(WeightType, f32)| format!("{} {difference:.0e}", dtype.name());
    let shares: Vec<String> = found.differences.iter().map(share).collect();
    let rows = if found.alike { "batch-invariant" } else { "rows differ in their last bits among others" };
    let about = format!("logits differ from the CPU's by {} of the largest; {rows}", shares.join(", "));
    match (found.wrong(), found.alike) {
        (Some(_), _) => finding(State::Warn, format!("its results differ from the CPU's: {about}"))
            .map(|finding| finding.hint("update its driver, or use --device cpu")),
        (None, false) => finding(State::Warn, about)
            .map(|finding| finding.hint("lossless methods can differ at near-ties; see docs/devices.md")),
        (None, true) => finding(State::Good, about),
    }
}

/// Versions of FFmpeg's libraries, and the decoders that common videos need.
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
                .hint("videos in this codec cannot be read; install an FFmpeg build with this decoder"),
        });
    }
    findings.push(sound(|id| codec::decoder::find(id).is_some()));
    findings
}

/// The decoders that the sound of common videos needs, for `--transcribe`.
pub(super) fn sound(decodes: impl Fn(codec::Id) -> bool) -> Finding {
    let wanted = [
        ("aac", codec::Id::AAC),
        ("mp3", codec::Id::MP3),
        ("opus", codec::Id::OPUS),
        ("vorbis", codec::Id::VORBIS),
        ("flac", codec::Id::FLAC),
        ("ac3", codec::Id::AC3),
        ("pcm", codec::Id::PCM_S16LE),
    ];
    let (found, missing): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(_, id)| decodes(*id));
    let names =
        |list: &[(&str, codec::Id)]| list.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    if missing.is_empty() {
        Finding::new("FFmpeg", "sound", State::Good, format!("decoders {}", names(&found)))
    } else {
        Finding::new("FFmpeg", "sound", State::Warn, format!("no decoder for {}", names(&missing))).hint(
            "`--transcribe` cannot hear videos with such sound; install an FFmpeg build with these decoders",
        )
    }
}

pub fn terminal() -> Vec<Finding> {
    const AREA: &str = "Terminal";
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let mut findings = Vec::new();
    findings.push(if term::can_draw() {
        Finding::new(AREA, "studio", State::Good, "supported")
    } else {
        Finding::new(
            AREA,
            "studio",
            State::Warn,
            "not available: stdin or stdout is not a terminal, or TERM is dumb",
        )
        .hint("run specreel in a terminal; specreel caption works without one")
    });
    if let Ok((columns, rows)) = crossterm::terminal::size() {
        let size = Finding::new(AREA, "size", State::Good, format!("{columns} x {rows}"));
        let small = columns < 60 || rows < 16;
        findings.push(if small {
            Finding { state: State::Warn, ..size }.hint("the studio needs at least 60 x 16")
        } else {
            size
        });
    }
    let colors = match ColorDepth::stdout() {
        ColorDepth::True => "16 million",
        ColorDepth::Indexed => "256",
        ColorDepth::Ansi => "16",
        ColorDepth::None if no_color() => "none (NO_COLOR is set)",
        ColorDepth::None => "none",
    };
    findings.push(Finding::new(AREA, "colors", State::Good, colors));
    let kind = format!("TERM={} TERM_PROGRAM={}", variable("TERM"), variable("TERM_PROGRAM"));
    findings.push(Finding::new(AREA, "kind", State::Good, kind));
    findings.push(match term::locale() {
        None => Finding::new(AREA, "locale", State::Good, "not set; assuming UTF-8")
            .hint("if borders look broken, run: specreel --charset ascii"),
        Some(locale) if term::is_utf8(&locale) => Finding::new(AREA, "locale", State::Good, locale),
        Some(locale) => {
            let found = format!("{locale} is not UTF-8: the studio draws in ASCII");
            Finding::new(AREA, "locale", State::Warn, found)
                .hint("export LANG=C.UTF-8, or run specreel --charset utf-8")
        }
    });
    findings
}

pub fn directories() -> Vec<Finding> {
    const AREA: &str = "Directories";
    let Some(dirs) = Dirs::find() else {
        return vec![Finding::new(AREA, "home", State::Warn, "no home directory").hint(format!(
            "set {HOME}; without it the demo is unpacked to the temporary directory and nothing is saved"
        ))];
    };
    let all = [
        ("config", &dirs.config, UserDir::Config),
        ("data", &dirs.data, UserDir::Data),
        ("state", &dirs.state, UserDir::State),
        ("cache", &dirs.cache, UserDir::Cache),
    ];
    all.into_iter()
        .map(|(name, dir, place)| {
            let found = dir.display().to_string();
            if writable(dir) {
                Finding::new(AREA, name, State::Good, found)
            } else {
                Finding::new(AREA, name, State::Warn, format!("{found} is not writable"))
                    .hint(format!("make it writable, or set {}", place.variable()))
            }
        })
        .collect()
}

/// True if a file can be created in the directory or, where it does not exist yet, in its nearest existing ancestor.
fn writable(dir: &Path) -> bool {
    let Some(there) = dir.ancestors().find(|d| d.exists()) else { return false };
    let probe = there.join(format!(".specreel-doctor-{}", std::process::id()));
    let created = std::fs::File::create(&probe).is_ok();
    created && std::fs::remove_file(&probe).is_ok()
}

pub fn configuration(config: &Result<Config, Failure>) -> Vec<Finding> {
    // An unreadable file stops every command that uses it; a bad value stops only the commands that need that value.
    let (state, failures) = match config {
        Ok(config) => (State::Warn, commands::config::mistakes(config)),
        Err(failure) => (State::Bad, vec![failure.clone()]),
    };
    let finding = |failure: Failure| {
        let finding = Finding::new("Directories", "config.toml", state, failure.error);
        failure.hint.into_iter().fold(finding, Finding::hint)
    };
    failures.into_iter().map(finding).collect()
}

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
    let flags = RunArgs { target: args.target.clone(), drafter: args.drafter.clone(), ..none };
    let spec = match catalog::spec(&Settings::merge(flags.layer(), config), None) {
        Ok(spec) => spec,
        Err(failure) => return vec![bad("models", failure)],
    };
    let mut findings = vec![Finding::new(AREA, "target", State::Good, spec.target.display().to_string())];
    findings.push(match &spec.drafter {
        Some(drafter) => Finding::new(AREA, "drafter", State::Good, drafter.display().to_string()),
        None => Finding::new(AREA, "drafter", State::Warn, "none")
            .hint("methods with a draft model need --drafter DIR"),
    });
    findings.extend(spec.heads.iter().map(|head| {
        let recipe = catalog::recipe(head).map_or("draft head", Recipe::name);
        Finding::new(AREA, recipe, State::Good, head.display().to_string())
    }));
    findings.push(match load(spec) {
        Ok(loaded) => Finding::new(AREA, "loading", State::Good, loaded),
        Err(failure) => bad("loading", failure),
    });
    findings
}

fn load(spec: ModelSpec) -> Result<String, Failure> {
    let Ready { target, drafter, device, dtype, notes, .. } = Client::start()?.load_blocking(spec)?;
    let pair = drafter.map_or(target.clone(), |d| format!("{target} with {d}"));
    let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
    Ok(format!("{pair} on {device}, {dtype}{notes}"))
}
