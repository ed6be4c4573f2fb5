//! `specreel inspect`: the picture, the text and the JSON, and that they agree; what is refused, and what is left behind.

use std::path::Path;

use image::RgbImage;
use serde_json::Value;
use specreel_record::{Event, EventKind, PromptSeen};

use crate::cli::{Outcome, Program, lab_methods, make::Clip};

fn inspect(program: &Program, args: &[&str]) -> Outcome {
    program.run(&[&["inspect", "demo"], args].concat())
}

fn json(program: &Program, args: &[&str]) -> (Event, Value) {
    let run = inspect(program, &[&["--json"], args].concat()).silent();
    let lines: Vec<&str> = run.stdout.lines().collect();
    let [event, figures] = lines[..] else { panic!("{}", run.stdout) };
    (serde_json::from_str(event).unwrap(), serde_json::from_str(figures).unwrap())
}

fn picture(program: &Program, name: &str) -> RgbImage {
    let bytes = std::fs::read(program.home().join(name)).unwrap();
    image::load_from_memory_with_format(&bytes, image::ImageFormat::Png).unwrap().to_rgb8()
}

fn files(program: &Program) -> Vec<String> {
    let names = std::fs::read_dir(program.home()).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| !matches!(name.as_str(), ".local" | ".cache" | ".config"));
    names.sort();
    names
}

fn brightness(image: &RgbImage, (x, y): (u32, u32), cell: u32) -> f64 {
    let inner = 4..cell - 4;
    let places = inner.clone().flat_map(|dy| inner.clone().map(move |dx| (dx, dy)));
    let sums: Vec<u32> = places
        .map(|(dx, dy)| image.get_pixel(x + dx, y + dy).0.iter().map(|p| u32::from(*p)).sum())
        .collect();
    f64::from(sums.iter().sum::<u32>()) / (3 * sums.len()) as f64
}

#[test]
fn kept_cells_are_brighter_than_dropped_ones() {
    let program = Program::new();
    // The brightness of each cell if everything is kept.
    let (_, whole) = json(&program, &["--method", "naive", "--png", "whole.png"]);
    let clear = picture(&program, "whole.png");
    for method in ["sd-uniform", "specvlm", "parallelvlm", "std", "text-only"].map(lab_methods) {
        let (event, figures) = json(&program, &["--method", &method, "--png", "a.png", "--force"]);
        let EventKind::Prompt(PromptSeen { kept: Some(kept), grid: [frames, rows, columns], .. }) =
            event.kind
        else {
            panic!("{method}: {event:?}")
        };
        let image = picture(&program, "a.png");
        let about = &figures["picture"];
        assert_eq!((&about["width"], &about["height"]), (&image.width().into(), &image.height().into()));
        let cell = about["cell"].as_u64().unwrap() as u32;
        assert_eq!((about["cell"].clone(), frames), (whole["picture"]["cell"].clone(), 6));
        for (frame, drawn) in about["frames"].as_array().unwrap().iter().enumerate() {
            let corner = |of: &Value| (of["x"].as_u64().unwrap() as u32, of["y"].as_u64().unwrap() as u32);
            let (here, there) = (corner(drawn), corner(&whole["picture"]["frames"][frame]));
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                let at = |(x, y): (u32, u32)| (x + column as u32 * cell, y + row as u32 * cell);
                let token = (frame * rows + row) * columns + column;
                let (this, bright) =
                    (brightness(&image, at(here), cell), brightness(&clear, at(there), cell));
                let outlined = image.get_pixel(at(here).0, at(here).1).0 == [255, 255, 255];
                if kept.contains(&(token as u32)) {
                    assert!((this - bright).abs() < 1.0 && outlined, "{method} {token}: {this} {bright}");
                } else {
                    assert!(this < 0.5 * bright + 1.0 && !outlined, "{method} {token}: {this} {bright}");
                }
            }
        }
    }
    assert_eq!(files(&program), ["a.png", "whole.png"]);
}

#[test]
fn text_and_json_agree() {
    let program = Program::new();
    for method in ["specvlm", "parallelvlm", "std", "sd-frames", "naive", "text-only"] {
        let file = lab_methods(method);
        let (event, figures) = json(&program, &["--method", &file]);
        let run = inspect(&program, &["--method", &file]).silent();
        let EventKind::Prompt(PromptSeen { grid, visual_tokens, kept, scores, .. }) = event.kind else {
            panic!("{event:?}")
        };
        let count = kept.as_ref().map_or(visual_tokens, Vec::len);
        assert_eq!((&figures["event"], &figures["kept"]), (&"inspection".into(), &count.into()));
        assert_eq!(figures["grid"], serde_json::to_value(grid).unwrap());
        let per_frame: Vec<u64> =
            figures["kept_per_frame"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        assert_eq!((per_frame.len(), per_frame.iter().sum::<u64>()), (grid[0], count as u64));
        let said = format!("sees {count} of {visual_tokens} visual tokens");
        run.printed(&format!("{method}: ")).printed(&said);
        let [frames, rows, columns] = grid;
        run.printed(&format!("\ngrid     {frames} x {rows} x {columns} "));
        for count in per_frame {
            run.printed(&format!(" s  {count}/{}", rows * columns));
        }
        // The legend has one pair of brackets.
        assert_eq!(run.stdout.matches('[').count(), count + 1, "{}", run.stdout);

        assert_eq!(scores.is_some(), figures["scores"].is_object(), "{method}");
        let Some(scores) = scores else { continue };
        let best = &figures["scores"]["best"][0];
        let highest = scores.iter().copied().fold(f32::MIN, f32::max);
        assert_eq!(scores[best["index"].as_u64().unwrap() as usize], highest);
        let place = format!(
            " at {:.2} s, row {}, column {}, ",
            best["time_s"].as_f64().unwrap(),
            best["row"].as_u64().unwrap() + 1,
            best["column"].as_u64().unwrap() + 1
        );
        let line = run.stdout.lines().find(|line| line.starts_with("best ")).unwrap();
        assert!(line.contains(&place), "{place}: {line}");
        if let Some(mass) = figures["scores"]["kept_mass"].as_f64() {
            let kept: f64 = kept.unwrap().iter().map(|&i| f64::from(scores[i as usize])).sum();
            let all: f64 = scores.iter().map(|&s| f64::from(s)).sum();
            assert!((mass - kept / all).abs() < 1e-9, "{method}");
            run.printed(&format!("hold {:.1} % of", mass * 100.0));
        }
    }
}

/// `SPECREEL_UPDATE_SCREEN=1` writes it afresh, as it does the studio's pictures.
#[test]
fn pictures_of_the_docs_are_what_is_drawn() {
    let program = Program::new();
    inspect(&program, &["--method", "specvlm", "--png", "a.png"]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/inspect.png");
    if std::env::var_os("SPECREEL_UPDATE_SCREEN").is_some() {
        std::fs::copy(program.home().join("a.png"), &file).unwrap();
    }
    let (drawn, kept) = (picture(&program, "a.png"), image::open(&file).unwrap().to_rgb8());
    assert_eq!(drawn.dimensions(), kept.dimensions());
    // Versions of FFmpeg round differently. A cell is more than 0.3 % of the pixels.
    let differs = |(a, b): (&image::Rgb<u8>, &image::Rgb<u8>)| (0..3).any(|i| a.0[i].abs_diff(b.0[i]) > 32);
    let different = drawn.pixels().zip(kept.pixels()).filter(|pair| differs(*pair)).count();
    let share = different as f64 / drawn.pixels().len() as f64;
    assert!(share < 0.001, "{share} of the pixels of docs/inspect.png differ");
}

#[test]
fn a_picture_is_only_overwritten_with_force() {
    let program = Program::new();
    program.file("a.png", "mine");
    inspect(&program, &["--png", "a.png"]).ends(2);
    assert_eq!(std::fs::read(program.home().join("a.png")).unwrap(), b"mine");
    let run = inspect(&program, &["--png", "a.png", "--force", "--method", "naive"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    let image = picture(&program, "a.png");
    let said = format!("wrote a.png: {} x {} pixels, 6 frames\n", image.width(), image.height());
    assert_eq!(run.stderr, said);
    let quiet = inspect(&program, &["--png", "b.png", "--quiet"]);
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (0, "", ""));
    assert_eq!(files(&program), ["a.png", "b.png"]);
}

#[test]
fn short_and_long_clips() {
    let program = Program::new();
    program.file("one.mp4", Clip::of(1).write().bytes());
    program.file("long.mp4", Clip::of(150).write().bytes());
    let uniform = lab_methods("sd-uniform");
    let small = ["--method", &uniform, "--max-pixels", "784", "--json"];
    let figures = |args: &[&str]| program.run(&[&["inspect"], args, &small].concat()).silent().last();
    let one = figures(&["one.mp4", "--png", "one.png"]);
    assert_eq!((one["grid"][0].as_u64(), one["picture"]["frames"].as_array().unwrap().len()), (Some(1), 1));
    let long = figures(&["long.mp4", "--frames", "140", "--png", "long.png"]);
    let drawn = long["picture"]["frames"].as_array().unwrap();
    assert_eq!((long["grid"][0].as_u64(), drawn.len()), (Some(70), 64));
    assert_eq!((&drawn[0]["frame"], &drawn[63]["frame"]), (&0.into(), &69.into()));
    let image = picture(&program, "long.png");
    assert!(image.width() <= 3200 && image.height() <= 3200, "{:?}", image.dimensions());
    let text = program.run(&["inspect", "long.mp4", "--frames", "140", "--max-pixels", "784"]);
    text.printed("64 of 70 frames are shown, evenly spaced\n");
}
