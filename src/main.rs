//! The specreel program: parse, dispatch, exit code; nothing else.

fn main() {
    // SAFETY: this is the program's first statement; no other thread runs yet.
    unsafe { specreel::cli::silence_drivers() };
    std::process::exit(specreel::cli::run(std::env::args_os(), specreel::tui::start));
}
