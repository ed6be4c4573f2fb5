//! The specreel program: parse, dispatch, exit code; nothing else.

mod wiring;

fn main() {
    std::process::exit(specreel::cli::run(std::env::args_os(), wiring::studio));
}
