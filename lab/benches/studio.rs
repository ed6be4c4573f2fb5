//! From a key to its frame: the real studio in a pseudo-terminal, keys typed one by one, the time until their effect is read
//! back from the screen; idle, while a run keeps all cores busy, while a run is played, and while a model of three billion
//! parameters (zeros) is loaded and converted.
//! `cargo build --release && cargo bench -p specreel-lab --bench studio`, or with `-- idle loading` only some of them.

#[path = "../../tests/support/hollow.rs"]
#[expect(clippy::unwrap_used, reason = "a measurement that fails says so by panicking")]
mod hollow;
#[path = "../../tests/pty/start.rs"]
#[expect(clippy::unwrap_used, reason = "a measurement that fails says so by panicking")]
mod start;
#[path = "../../tests/pty/terminal.rs"]
#[expect(dead_code, clippy::unwrap_used, reason = "the tests use the rest; a measurement that fails panics")]
mod terminal;

use std::time::Duration;

use terminal::Terminal;

/// The program that is measured, and the root of the workspace.
const BINARY: &str = "specreel";
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

const KEYS: usize = 400;
/// Keys come at the pace of a held key.
const PACE: Duration = Duration::from_millis(33);

fn main() {
    let parts = [
        ("idle", while_idle as fn()),
        ("writing", while_writing),
        ("playing", while_playing),
        ("loading", while_loading),
    ];
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (name, part) in parts {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            part();
        }
    }
}

fn while_idle() {
    report("idle", &mut start::studio(120, 40, &[]));
}

fn while_writing() {
    let mut busy = start::endless(120, 40);
    busy.press("\r", "writing");
    // The library takes the keys that go up and down.
    report("while a caption is written", &mut busy);
    assert!(busy.text().contains("writing"), "the run ended too early");
}

fn while_playing() {
    let clips = start::clips();
    let slow = ["--library", clips.to_str().unwrap_or_default(), "--pace", "0.0005"];
    let mut watched = Terminal::start(120, 40, &slow);
    watched.wait("● ready");
    watched.press("\r", "slowed 2000x");
    report("while a run is played", &mut watched);
    assert!(watched.text().contains("slowed 2000x"), "the playback ended too early");
}

#[expect(clippy::expect_used, reason = "a measurement that fails says so by panicking")]
fn while_loading() {
    let home = tempfile::tempdir().expect("a temporary directory");
    hollow::write(&home.path().join("models/3b"), "qwen2.5-vl-3b");
    let config = home.path().join("specreel");
    let folders = format!("models = [{:?}]\n", home.path().join("models"));
    let written =
        std::fs::create_dir(&config).and_then(|()| std::fs::write(config.join("config.toml"), folders));
    written.expect("a configuration");
    let variables = ["XDG_CONFIG_HOME", "SPECREEL_WEIGHT_CACHE"];
    let variables = variables.map(|name| (name, home.path().to_str().unwrap_or_default()));
    let mut t = start::library(120, 40, &["--pace", "off"], &variables);
    t.press("M", "embedded target");
    t.press("3b", "models/3b");
    t.press("\r", "loading 3b");
    t.keys("\u{1b}[18~");
    t.gone("╭ Models");
    report("while a model is loaded", &mut t);
}

fn report(when: &str, t: &mut Terminal) {
    let mut times = Vec::with_capacity(KEYS);
    let taken = taken_away();
    for i in 0..KEYS {
        std::thread::sleep(PACE);
        let (key, line) = if i % 2 == 0 { ("j", "▸ one large shape") } else { ("k", "▸ three shapes") };
        times.push(t.press(key, line).as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    println!(
        "{when}: key to frame p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, slowest {:.1} ms ({KEYS} keys)",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    if let Some(ticks) = taken_away().zip(taken).map(|(now, before)| now - before).filter(|&ticks| ticks > 0)
    {
        println!("    the hypervisor took the processors away for {} ms", 10 * ticks);
    }
}

/// Hundredths of a second of all processors that a hypervisor has given to others (Linux).
fn taken_away() -> Option<u64> {
    let times = std::fs::read_to_string("/proc/stat").ok()?;
    times.lines().next()?.split_whitespace().nth(8)?.parse().ok()
}
