//! The program: arguments in, exit code out.

fn main() {
    // SAFETY: this is the program's first statement; no other thread runs yet.
    unsafe { specreel::cli::silence_drivers() };
    let arguments: Vec<_> = std::env::args_os().collect();
    std::process::exit(specreel_lab::run(&arguments));
}
