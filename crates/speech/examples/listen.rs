//! What is said in a video: `cargo run --release -p specreel-speech --example listen -- MODEL VIDEO [LANGUAGE]`.

use std::{ops::ControlFlow, path::Path};

use specreel_record::Failure;
use specreel_speech::{Recognizer, Sound};

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, video, language @ ..] = &args[..] else {
        return Err(Failure::usage("expected MODEL VIDEO [LANGUAGE]", "pass a Whisper model and a video"));
    };
    let mut recognizer = Recognizer::open(Path::new(model))?;
    let Some(sound) = Sound::open(Path::new(video), 0.0, None)? else { return Ok(()) };
    let language = language.first().map(String::as_str);
    let said = recognizer.listen(sound, f64::INFINITY, language, &mut |_| ControlFlow::Continue(()))?;
    for line in said.lines {
        println!("{:.2} - {:.2}: {}", line.span.start, line.span.end, line.text);
    }
    Ok(())
}
