//! `specreel index` and `specreel find`.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use super::*;

/// A program with a directory of embedded clips.
fn library(names: &[&str]) -> Program {
    let program = Program::new();
    let demo = specreel_demo::demo(Some(&program.home().join(".cache/specreel"))).unwrap();
    let videos = program.home().join("videos");
    fs::create_dir_all(&videos).unwrap();
    for (clip, name) in demo.clips.iter().cycle().zip(names) {
        fs::copy(&clip.path, videos.join(name)).unwrap();
    }
    program
}

fn indexed(program: &Program, more: &[&str]) -> Outcome {
    let args = ["index", "videos", "--db", "library.db", "--segments", "scenes", "--method", "naive"];
    program.run(&[&args[..], more].concat())
}

fn found(program: &Program, words: &[&str]) -> Vec<Value> {
    let outcome = program.run(&[&["find", "--db", "library.db", "--json"], words].concat());
    let value: Value = serde_json::from_str(&outcome.stdout).unwrap();
    value["moments"].as_array().unwrap().clone()
}

#[test]
fn a_library_is_captioned_once_and_searched() {
    let program = library(&["a.mp4", "b.mp4"]);
    let first = indexed(&program, &[]).ok();
    first.said("2 videos: 2 captioned").said("of 2 videos");
    // Every moment of a word that a caption has is found, and only those.
    let caption = program.run(&["caption", "videos/a.mp4", "--method", "naive"]).ok().stdout;
    let word = caption.split(|c: char| !c.is_alphabetic()).find(|word| word.len() > 4).unwrap();
    let hits = found(&program, &[word]);
    assert!(
        !hits.is_empty()
            && hits.iter().all(|hit| hit["start"].as_f64().is_some() && hit["end"].as_f64() > Some(0.0))
    );
    assert!(hits.iter().any(|hit| hit["video"].as_str().unwrap().ends_with("videos/a.mp4")), "{hits:?}");
    assert!(
        hits.iter().all(|hit| hit["text"].as_str().unwrap().to_lowercase().contains(&word.to_lowercase()))
    );
    let text = program.run(&["find", "--db", "library.db", word]).ok();
    assert!(text.stdout.lines().next().unwrap().contains(".mp4  0:00–"), "{}", text.stdout);
    assert!(!text.stdout.contains('\u{1b}'), "no terminal, no color");
    // Again, nothing is done: no models are needed for what is not new.
    indexed(&program, &[]).ok().said("2 had captions");
    // A renamed video keeps its captions, a removed one is not found.
    fs::rename(program.home().join("videos/a.mp4"), program.home().join("videos/c.mp4")).unwrap();
    fs::remove_file(program.home().join("videos/b.mp4")).unwrap();
    indexed(&program, &[]).ok().said("1 had captions").said("1 of them no longer there");
    let hits = found(&program, &[word]);
    assert!(hits.iter().all(|hit| hit["video"].as_str().unwrap().ends_with("videos/c.mp4")), "{hits:?}");
    assert!(found(&program, &[word, "--missing"]).len() >= hits.len());
    // For players.
    let list = program.run(&["find", "--db", "library.db", word, "--m3u"]).ok().stdout;
    assert!(list.starts_with("#EXTM3U\n#EXTINF:") && list.contains("#EXTVLCOPT:start-time=0.000"), "{list}");
    assert!(
        program
            .run(&["find", "--db", "library.db", word, "--edl"])
            .ok()
            .stdout
            .starts_with("# mpv EDL v0\n%")
    );
}

#[test]
fn what_is_known_is_taken_in_without_models() {
    let program = library(&["a.mp4", "b.mp4", "c.mp4"]);
    let put = |name: &str, text: &str| fs::write(program.home().join("videos").join(name), text).unwrap();
    put(
        "a.srt",
        "1\n00:00:01,000 --> 00:00:03,000\nA red van is turning left.\n\n2\n00:00:03,000 --> 00:00:04,500\nThen it stops.\n",
    );
    put("b.txt", "Two cats on a sofa.\n");
    let import = |what: &str| program.run(&["index", "videos", "--db", "library.db", "--import", what]);
    import("captions").ok().said("3 videos: 2 imported, 0 had captions, 1 without, 0 failed");
    import("captions").ok().said("0 imported, 2 had captions");
    put("c.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nTurn left at the van, please.\n");
    import("speech").ok();
    let starts = |words: &[&str]| -> Vec<f64> {
        found(&program, words).iter().map(|hit| hit["start"].as_f64().unwrap()).collect()
    };
    // The file next to a.mp4 has been taken for both.
    assert_eq!(starts(&["van", "turned"]), [1.0, 1.0, 1.0]);
    assert_eq!(starts(&["van", "turned", "--seen"]), [1.0]);
    assert_eq!(starts(&["van turn", "--said"]).len(), 2);
    assert_eq!(starts(&["sofa", "--in", "videos/b.mp4"]), [0.0]);
    assert_eq!(starts(&["sofa", "--in", "videos/a.mp4"]), [0.0; 0]);
    assert_eq!(starts(&["--", "-van", "cats"]).len(), 1);
    assert_eq!(starts(&["left OR sofa -van"]), [0.0]);
    program
        .run(&["find", "--db", "library.db", "zebra"])
        .ends(1)
        .said("nothing found in 6 captions of 3 videos");
    put("a.srt", "nothing with a time");
    fs::remove_file(program.home().join("library.db")).unwrap();
    import("captions").ends(5).said("failed: transcript videos/a.srt");
}

/// Nothing that the models write can name a moment that is not there.
#[test]
fn a_question_is_answered_from_moments_that_exist() {
    let program = library(&["a.mp4", "b.mp4"]);
    let put = |name: &str, text: &str| fs::write(program.home().join("videos").join(name), text).unwrap();
    put("a.srt", "1\n00:00:01,000 --> 00:00:03,000\nA red van is turning left.\n");
    put("b.txt", "A van is parked.\n");
    program.run(&["index", "videos", "--db", "library.db", "--import", "captions"]).ok();
    let ask =
        |more: &[&str]| program.run(&[&["ask", "--db", "library.db", "--method", "naive"], more].concat());
    let answer = ask(&["When does a van turn?"]).ok();
    let place = "a.mp4  0:01–0:03";
    assert!(answer.stdout.contains("\n[1] ") && answer.stdout.contains(place), "{}", answer.stdout);
    let events = ask(&["videos", "When does a van turn?", "--json", "--max-new-tokens", "24"]);
    let events: Vec<Value> = events.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let started = events.iter().find(|event| event["event"] == "started").unwrap();
    assert!(
        started["prompt"]
            .as_str()
            .unwrap()
            .contains("\n[1] a.mp4, 0:01–0:03: A red van is turning left.\n[2] b.mp4, all: A van")
    );
    assert!(started["constraint"]["pattern"].as_str().unwrap().contains("(1|2)"), "{started}");
    assert_eq!((&started["span"]["start"], &started["span"]["end"]), (&1.0.into(), &3.0.into()));
    let moments = events.last().unwrap();
    assert_eq!(
        (moments["event"].as_str(), moments["moments"][0]["number"].as_u64()),
        (Some("moments"), Some(1))
    );
    // In other places, or about nothing that is there.
    let elsewhere = ask(&["videos/b.mp4", "When does a van turn?", "-q"]).ok();
    assert!(
        !elsewhere.stdout.contains(place) && elsewhere.stdout.contains("b.mp4  all"),
        "{}",
        elsewhere.stdout
    );
    // Without meanings, only words count.
    ask(&["Where is the zebra?"]).ends(1).said("nothing found in 2 captions of 2 videos");
    ask(&["where", "is", "it?"]).ends(2).said("where: no such file or directory").said("quotation marks");
    ask(&["x", "--prompt", "y"]).ends(2);
    ask(&["?"]).ends(2).said("it contains no words");
}

/// The embedded models know too few words to search by meaning, and are only tested once.
#[test]
fn a_target_that_cannot_tell_what_captions_are_about_says_so() {
    let program = library(&["a.mp4"]);
    indexed(&program, &["--no-meaning"]).ok();
    let near = || program.run(&["find", "--db", "library.db", "--meaning", "zebra"]);
    near().ends(2).said("the index has no meanings").said("a target that can search by meaning");
    let said = "demo-target cannot search by meaning";
    indexed(&program, &[]).ok().said("1 had captions").said(said);
    assert!(!indexed(&program, &[]).ok().stderr.contains(said));
    near().ends(2);
}

/// A real language model, of 135 million parameters; nothing here needs its video tower.
#[test]
fn captions_in_other_words_are_found_by_a_real_model() {
    let Some(target) = crate::real_weights::target() else { return };
    let program = library(&["a.mp4", "b.mp4", "c.mp4", "d.mp4"]);
    for (name, text) in [
        ("a", "A red lorry is parked next to a low brick wall."),
        ("b", "Two children are kicking a ball around on the grass."),
        ("c", "A woman is slicing carrots and onions."),
        ("d", "A cat is curled up on a cushion with its eyes closed."),
    ] {
        fs::write(program.home().join(format!("videos/{name}.txt")), text).unwrap();
    }
    let target = target.to_str().unwrap();
    program.run(&["index", "videos", "--db", "library.db", "--import", "captions"]).ok();
    let read = ["index", "videos", "--db", "library.db", "--target", target, "--method", "autoregressive"];
    program.run(&read).ok().said("4 had captions");
    let near = |words: &str| {
        let find = ["find", "--db", "library.db", "--json", "--meaning", "--target", target, words];
        let found: Value = serde_json::from_str(&program.run(&find).ok().stdout).unwrap();
        let video = found["moments"][0]["video"].as_str().unwrap();
        video[video.len() - 5..].to_owned()
    };
    for (words, video) in [
        ("truck", "a.mp4"),
        ("kids playing soccer", "b.mp4"),
        ("chopping vegetables", "c.mp4"),
        ("kitten sleeping", "d.mp4"),
    ] {
        assert!(found(&program, &[words]).is_empty());
        assert_eq!(near(words), video, "{words}");
    }
    // Its own word goes first, and what is left out stays out.
    assert_eq!(near("brick"), "a.mp4");
    assert_ne!(near("truck -brick"), "a.mp4");
    // The embedded target is another model.
    let other = program.run(&["find", "--db", "library.db", "--meaning", "truck"]);
    other.ends(2).said("not of demo-target").said("--target");
    let asked =
        ["ask", "--db", "library.db", "--target", target, "--method", "autoregressive", "-n", "1", "-q"];
    let answer = program.run(&[&asked[..], &["--max-new-tokens", "24", "Is there a truck?"]].concat());
    assert!(answer.stdout.contains("a.mp4  all"), "{answer:?}");
}

#[test]
fn found_moments_become_files() {
    let program = library(&["a.mp4"]);
    let text = "1\n00:00:01,000 --> 00:00:03,000\nA red van is turning left.\n";
    fs::write(program.home().join("videos/a.srt"), text).unwrap();
    program.run(&["index", "videos", "--db", "library.db", "--import", "captions"]).ok();
    let find = || program.run(&["find", "van", "--db", "library.db", "--clip", "cut"]);
    find().ok().said("cut/a 0.01.mp4");
    find().ok().said("cut/a 0.01-2.mp4");
    let length = specreel_video::probe(&program.home().join("cut/a 0.01.mp4")).unwrap().duration_s;
    assert!((1.9..2.2).contains(&length), "{length}");
    fs::remove_file(program.home().join("videos/a.mp4")).unwrap();
    find().ends(5).said("failed: ");
}

/// Data sets and saved runs are taken in as they are, each caption once.
#[test]
fn what_was_captioned_elsewhere_is_taken_in() {
    let program = library(&["a.mp4", "b.mp4", "c.mp4"]);
    let home = program.home().to_owned();
    let row = r#"{"video":"videos/a.mp4","caption":"A van. A bus.","prompt":"p","segments":[{"start":0,"end":2,"caption":"A van."},{"start":2,"end":5,"caption":"A bus."}],"target":"m"}"#;
    fs::write(home.join("set.jsonl"), format!("{row}\n")).unwrap();
    fs::write(
        home.join("set.csv"),
        "video,caption,prompt,cut\nvideos/b.mp4,A lorry.,p,\nnone.mp4,Nothing.,p,\n",
    )
    .unwrap();
    program.run(&["caption", "videos/c.mp4", "--method", "naive", "--save", "run.jsonl", "-q"]).ok();
    program
        .run(&[
            "caption",
            "videos/a.mp4",
            "--segments",
            "2",
            "--method",
            "naive",
            "--save",
            "parts.jsonl",
            "-q",
        ])
        .ok();
    let import = |what: &str| program.run(&["index", "videos", "--db", "library.db", "--import", what]);
    for file in ["set.jsonl", "set.csv", "run.jsonl"] {
        import(file).ok().said("3 videos: 1 imported, 0 had captions, 2 without, 0 failed");
        import(file).ok().said("0 imported, 1 had captions");
    }
    let hit = found(&program, &["bus"]).remove(0);
    assert_eq!((hit["start"].as_f64(), hit["model"].as_str()), (Some(2.0), Some("m")));
    assert_eq!(found(&program, &["lorries"]).len(), 1);
    // Its prompt is another one, so the segments are added; a directory has all runs.
    let before = found(&program, &["a OR the", "--in", "videos/a.mp4"]).len();
    fs::create_dir(home.join("saved")).unwrap();
    fs::rename(home.join("parts.jsonl"), home.join("saved/parts.jsonl")).unwrap();
    fs::write(home.join("saved/other.jsonl"), "no event").unwrap();
    import("saved").ok().said("1 imported");
    let after = found(&program, &["a OR the", "--in", "videos/a.mp4"]);
    assert!(after.len() > before && after.iter().any(|hit| hit["start"].as_f64() >= Some(2.0)), "{after:?}");
    import("runs").ok().said("0 imported");
    import("none.jsonl").ends(2).said("an existing file");
    fs::write(home.join("text.jsonl"), "words\n").unwrap();
    import("text.jsonl").ends(3).said("no row has a video and a caption");
}

/// Captions that go to files are kept as well, and count.
#[test]
fn captions_of_a_batch_are_indexed_too() {
    let program = library(&["a.mp4"]);
    let run = ["caption", "videos", "--sidecar", "txt", "--index=library.db", "--method", "naive"];
    program.run(&run).ok().said("1 captioned");
    let caption = fs::read_to_string(program.home().join("videos/a.txt")).unwrap();
    let word = caption.split(|c: char| !c.is_alphabetic()).find(|word| word.len() > 4).unwrap();
    assert_eq!(found(&program, &[word]).len(), 1);
    program.run(&run).ok().said("1 had captions");
    // Either of them is written where it is missing.
    fs::remove_file(program.home().join("library.db")).unwrap();
    program.run(&run).ok().said("1 captioned");
    assert_eq!(found(&program, &[word]).len(), 1);
}

#[test]
fn a_search_that_cannot_be_says_why() {
    let program = library(&["a.mp4"]);
    program
        .run(&["find", "--db", "none.db", "van"])
        .ends(3)
        .said("index none.db: no such file")
        .said("specreel index DIR");
    fs::write(program.home().join("text.db"), "no database ".repeat(500)).unwrap();
    program.run(&["find", "--db", "text.db", "van"]).ends(3).said("it is damaged, or not an index");
    program.run(&["index", "videos", "--db", "text.db"]).ends(3).said("it is damaged, or not an index");
    program.run(&["find", "--db", "text.db", "-"]).ends(2).said("it contains no words");
    program
        .run(&["find", "--db", "text.db", "van", "--since", "yesterday"])
        .ends(2)
        .said("such as 2026-11-28");
}

/// However a run is killed, what is in the index is whole, and the next run does the rest.
#[test]
fn a_killed_run_loses_nothing_that_was_written() {
    let program = library(&["a.mp4", "b.mp4", "c.mp4", "d.mp4", "e.mp4"]);
    for ms in [900, 1500, 2100] {
        let mut child =
            program.spawn(&["index", "videos", "--db", "library.db", "--method", "naive", "--json"]);
        std::thread::sleep(Duration::from_millis(ms));
        let _ = child.kill();
        child.wait().unwrap();
        if program.home().join("library.db").exists() {
            let totals = program.run(&["find", "--db", "library.db", "a OR the", "--json", "--limit", "50"]);
            assert!([0, 1].contains(&totals.code), "{totals:?}");
        }
    }
    indexed(&program, &[]).ok().said("of 5 videos");
    indexed(&program, &[]).ok().said("5 had captions");
}
