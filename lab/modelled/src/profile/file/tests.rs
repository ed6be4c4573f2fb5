use super::*;
use specreel_record::FailureClass;

const SIZES: Sizes = Sizes {
    layers: 10.0,
    layer_weights: 1e6,
    head_weights: 5e6,
    kv_values: 100.0,
    attention: 200.0,
    hidden: 10.0,
};

fn parse(text: &str) -> Result<Profile, Failure> {
    Profile::parse("mine", text, &|name| (name == "big").then_some(SIZES))
}

fn refused(text: &str) -> String {
    let failure = parse(text).unwrap_err();
    assert_eq!(failure.class, FailureClass::Input);
    assert!(failure.hint.is_some());
    failure.error
}

const DEVICE: &str = "[device]\ngigabytes_per_second = 1\nteraflops = 1\n";

#[test]
fn the_lines_of_the_step_suite_are_a_profile() {
    let line = |role: &str, more: &str, passes: &str| {
        format!(
            r#"{{"event":"rows","model":"{role} x","role":"{role}","device":"cpu","slots":100,{more}"passes":[{passes}]}}"#
        )
    };
    let (one, two) = (r#"{"rows":1,"ms":2.0,"ratio":1.0}"#, r#"{"rows":1,"ms":2.0},{"rows":11,"ms":4.0}"#);
    let text = [
        line("target", "", two),
        line("drafter", "", one),
        line("layer", r#""recipe":"msd","held":100,"#, one),
        r#"{"event":"clip"}"#.into(),
    ]
    .join("\n");
    let profile = parse(&text).unwrap();
    assert_eq!(profile.about, "target x with drafter x with layer x on cpu, measured");
    assert_eq!(profile.target.ms(6.0, 100.0, 1.0), 3.0);
    assert!(profile.drafter.is_some() && !profile.two_devices && profile.step_ms.is_none());
    assert_eq!(profile.heads.keys().collect::<Vec<_>>(), ["msd"]);

    assert!(refused(&line("drafter", "", one)).ends_with("has no passes of a target"));
    assert!(refused(&line("target", "", one)).contains("only passes of one row"));
    assert!(refused(&line("target", "", "")).contains("has no passes of the target"));
    let negative = two.replace("4.0", "-4.0");
    assert!(refused(&line("target", "", &negative)).contains("a pass of -4 ms"), "{negative}");
    assert!(refused("{\"event\":\"rows\"").contains("is invalid in line 1"));
}

#[test]
fn a_roofline_is_solved_from_one_figure() {
    let head = "about = \"a\"\ndevices = 2\nvisual = 900\ntext = 100\nstep_ms = 1.5\n";
    let target = "[target]\nshape = \"big\"\n[head]\nshape = \"big\"\nweight_bits = 8\n";
    // 30 MB at 1 GB/s, and 1000 slots of 10 layers of 200 bytes: 2 MB.
    let calibrate = "[calibrate.target]\nslots = 1000\nms = 40\nsource = \"a table\"\n";
    let profile = parse(&format!("{head}{DEVICE}{calibrate}{target}")).unwrap();
    assert!((profile.target.ms(1.0, 1000.0, 1.0) - 40.0).abs() < 1e-9);
    assert!((profile.target.ms(1.0, 0.0, 1.0) - 30.0).abs() < 1e-9);
    let head_ms = profile.heads[""].ms(1.0, 0.0, 1.0);
    assert!((head_ms - 6.0002).abs() < 1e-9, "{head_ms}");
    assert!(profile.two_devices && profile.drafter.is_none());
    assert_eq!((profile.visual, profile.text, profile.step_ms), (Some(900), Some(100), Some(1.5)));

    let fast = calibrate.replace("40", "20");
    assert!(refused(&format!("{DEVICE}{fast}{target}")).contains("layers and weights alone take 30.0 ms"));
    let both = DEVICE.replace("[device]", "[device]\nkv_factor = 2");
    assert!(refused(&format!("{both}{calibrate}{target}")).contains("both kv_factor and [calibrate]"));
    assert!(refused(&format!("{calibrate}{target}")).contains("no [device]"));
}

#[test]
fn a_roofline_is_solved_from_two_figures() {
    // 30 MB at 1 GB/s, 10 layers, and 2 MB of cache for 1000 slots: 10 x 0.5 ms of the host, and the cache five times.
    let pass = |role: &str, slots: f64, ms: f64| {
        format!("[calibrate.{role}]\nslots = {slots}\nms = {ms}\nsource = \"a table\"\n")
    };
    let (long, short) = (pass("target", 1000.0, 45.0), pass("drafter", 100.0, 36.0));
    let target = "[target]\nshape = \"big\"\n";
    for drafter in ["", "[drafter]\nshape = \"big\"\n"] {
        let profile = parse(&format!("{DEVICE}{long}{short}{target}{drafter}")).unwrap();
        assert!((profile.target.ms(1.0, 0.0, 1.0) - 35.0).abs() < 1e-9);
        assert!((profile.target.ms(1.0, 1000.0, 1.0) - 45.0).abs() < 1e-9);
    }
    let fast = pass("drafter", 100.0, 20.0);
    assert!(refused(&format!("{DEVICE}{long}{fast}{target}")).contains("would take a layer_ms of -"));
    let given = DEVICE.replace("[device]", "[device]\nlayer_ms = 1");
    assert!(
        refused(&format!("{given}{long}{short}{target}")).contains("both layer_ms and [calibrate.drafter]")
    );
}

#[test]
fn measured_passes_may_be_written_by_hand() {
    let profile = parse("[target]\npasses = [[0, 1, 2.0], [0, 3, 4.0]]\n").unwrap();
    assert_eq!(profile.target.ms(2.0, 50.0, 1.0), 3.0);
    assert_eq!(profile.name, "mine");
}

#[test]
fn what_is_missing_or_impossible_is_named() {
    let two = "passes = [[0, 1, 2.0], [0, 3, 4.0]]";
    for (text, words) in [
        ("about = \"a\"".to_owned(), "missing field `target`"),
        ("[target]\n".into(), "needs a shape or passes in [target]"),
        (format!("[target]\nshape = \"big\"\n{two}\n"), "needs a shape or passes in [target]"),
        ("[target]\nshape = \"big\"\n".into(), "no [device]"),
        (format!("{DEVICE}[target]\nshape = \"huge\"\n"), "unknown shape `huge` in [target]"),
        (format!("{DEVICE}[target]\nshape = \"big\"\nweight_bits = 0\n"), "0 weight_bits"),
        ("[target]\npasses = [[0, 1, 2.0]]\n".into(), "only passes of one row"),
        ("[target]\npasses = [[0, 1, 2.0], [0, 3, 0.0]]\n".into(), "a pass of 0 ms"),
        ("[target]\npasses = []\n".into(), "has no passes in [target]"),
        (format!("devices = 3\n[target]\n{two}\n"), "3 devices"),
        (format!("sequences = 0\n{DEVICE}[target]\nshape = \"big\"\n"), "0 sequences"),
        (format!("step_ms = -1.0\n[target]\n{two}\n"), "step_ms of -1"),
        (format!("grow_ms = nan\n[target]\n{two}\n"), "grow_ms of NaN"),
        (format!("prefill_ms = inf\n[target]\n{two}\n"), "prefill_ms of inf"),
        (
            format!("{}[target]\n{two}\n", DEVICE.replace("second = 1", "second = -1")),
            "gigabytes_per_second of -1",
        ),
        (format!("[target]\n{two}\n[head]\n"), "[head]"),
        (format!("speed = 3\n[target]\n{two}\n"), "unknown field `speed`"),
    ] {
        let error = refused(&text);
        assert!(error.contains(words), "{text}: {error}");
    }
}
