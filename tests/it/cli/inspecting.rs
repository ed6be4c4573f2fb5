//! Pictures of `specreel inspect`.

use std::path::Path;

use image::RgbImage;

use crate::cli::{Outcome, Program};

fn inspect(program: &Program, args: &[&str]) -> Outcome {
    program.run(&[&["inspect", "demo"], args].concat())
}

fn picture(program: &Program, name: &str) -> RgbImage {
    let bytes = std::fs::read(program.home().join(name)).unwrap();
    image::load_from_memory_with_format(&bytes, image::ImageFormat::Png).unwrap().to_rgb8()
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
fn a_picture_is_reported_unless_quiet() {
    let program = Program::new();
    let run = inspect(&program, &["--png", "a.png", "--method", "naive"]);
    let image = picture(&program, "a.png");
    let said = format!("wrote a.png: {} x {} pixels, 6 frames\n", image.width(), image.height());
    assert_eq!((run.code, run.stdout.as_str(), run.stderr), (0, "", said));
    let quiet = inspect(&program, &["--png", "a.png", "--force", "--quiet"]).silent();
    assert_eq!((quiet.code, quiet.stdout.as_str()), (0, ""));
}
