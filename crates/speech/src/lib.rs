//! What is said in a video: its sound to lines with times, by a Whisper model.
//!
//! The sound becomes a spectrogram ([`mel`]), which the model hears ([`model`]). Its text follows OpenAI's rules of times ([`rules`]); a
//! window whose text is uncertain or repeats itself is written again at a higher temperature ([`Recognizer`]). Memory does not grow with
//! the video: it is heard in windows of 30 seconds, each from the end of the last line, after a first pass that finds how loud it is.
//!
//! ```no_run
//! use specreel_speech::{Recognizer, Sound};
//!
//! let mut recognizer = Recognizer::open("whisper-base".as_ref())?;
//! let sound = Sound::open("lecture.mp4".as_ref(), 0.0, None)?.expect("a video with sound");
//! for line in recognizer.listen(sound, f64::INFINITY, None, &mut |_| std::ops::ControlFlow::Continue(()))?.lines {
//!     println!("{:.1} s: {}", line.span.start, line.text);
//! }
//! # Ok::<(), specreel_record::Failure>(())
//! ```

mod languages;
pub mod mel;
pub mod model;
mod recognizer;
pub mod rules;
mod windows;

pub use recognizer::{Line, Recognizer, Said};
pub use specreel_video::Sound;
